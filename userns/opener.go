package userns

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"wolffia.dev/nsexec"
)

// An Option changes how namespaces are opened.
type Option func(*Opener)

// Using names the mechanisms to try, in this order: a later one only where an earlier one can't work on this machine,
// and then the [Report] says why. Without it: vm, fork, ptrace.
func Using(m ...Mechanism) Option { return func(o *Opener) { o.wish = m } }

// Reporting fills r when the Opener is closed, which [Open] does.
func Reporting(r *Report) Option { return func(o *Opener) { o.tell = r } }

// Report tells how namespaces were opened.
type Report struct {
	Mechanism Mechanism // the one that was used last; "" before the first
	Notes     []string  // every fallback, with its reason
}

// Maps are the maps of a namespace to come, checked against who we are and laid out for the kernel.
type Maps struct {
	Mapping
	uidText, gidText []byte
}

// Direct reports whether both maps are written without a helper.
func (m *Maps) Direct() bool { return m.UIDWriter.Direct() && m.GIDWriter.Direct() }

// An Opener opens user namespaces. It knows who we were when it was made: after a change of ids or capabilities make
// a new one. Its methods may be called from several goroutines.
type Opener struct {
	wish    []Mechanism
	tell    *Report
	spawner *nsexec.Spawner   // for newuidmap and newgidmap
	facts   *Facts            // without sub-ids and helpers, until a map needs them
	fault   func(actOp) error // for tests: called before each act, which an error replaces

	dying struct { // killed and not yet reaped
		sync.Mutex
		child holder   // the last one
		late  []holder // a context ended while they were waited for
	}

	mu     sync.Mutex
	full   bool // facts are all there
	report Report
	now    *prepared // the mechanism in use
	past   []maker   // passed over, closed at the end
	lost   []error   // why those that can't be prepared can't
	closed bool

	running sync.WaitGroup // openings; none is added once closed is set
}

// prepared is one mechanism with its programs.
type prepared struct {
	name   Mechanism
	maker  maker
	direct program
	helped program
}

// NewOpener finds out who we are: a few files of /proc/self are read. The error is a *ProbeError.
func NewOpener(opts ...Option) (*Opener, error) {
	o := &Opener{wish: Mechanisms(), spawner: nsexec.NewMainSpawner()}
	for _, opt := range opts {
		opt(o)
	}
	facts, err := Probe(ProbeOptions{Mode: Single})
	if err != nil {
		return nil, err
	}
	o.facts = facts
	return o, nil
}

// Close waits for the openings that run, settles, and gives back what the Opener holds. Later openings get
// os.ErrClosed. Namespaces that were opened stay.
func (o *Opener) Close() error {
	o.shut()
	o.running.Wait()
	settled := o.Settle(context.Background())
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tell != nil {
		*o.tell = o.reportLocked()
	}
	if o.now != nil {
		o.past, o.now = append(o.past, o.now.maker), nil
	}
	errs := []error{settled}
	for _, m := range o.past {
		errs = append(errs, m.close())
	}
	o.past = nil
	return errors.Join(errs...)
}

func (o *Opener) shut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// begin holds off Close until o.running.Done().
func (o *Opener) begin() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errClosed
	}
	o.running.Add(1)
	return nil
}

// closedError is an Opener or Pool that is used after its end. No fmt.Errorf: each start of wolffia would pay for it.
type closedError string

func (e closedError) Error() string {
	return "userns: the " + string(e) + " is closed: " + os.ErrClosed.Error()
}
func (e closedError) Unwrap() error { return os.ErrClosed }

const errClosed closedError = "Opener"

// Report tells which mechanism is in use and what was passed over.
func (o *Opener) Report() Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reportLocked()
}

func (o *Opener) reportLocked() Report {
	return Report{o.report.Mechanism, slices.Clone(o.report.Notes)}
}

func (o *Opener) note(notes ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noteLocked(notes...)
}

func (o *Opener) noteLocked(notes ...string) {
	for _, n := range notes {
		if n != "" && !slices.Contains(o.report.Notes, n) {
			o.report.Notes = append(o.report.Notes, n)
		}
	}
}

// Prepare checks maps as far as they can be checked before a namespace exists, for any number of [Opener.OpenRaw].
// The error is a *PlanError.
func (o *Opener) Prepare(uid, gid IDMap) (*Maps, error) {
	if uid == nil {
		uid = IDMap{}
	}
	if gid == nil {
		gid = IDMap{}
	}
	facts, err := o.factsFor(uid, gid)
	if err != nil {
		return nil, err
	}
	m, err := PlanMaps(Request{Mode: Spec, UID: uid, GID: gid}, facts)
	if err != nil {
		return nil, err
	}
	return &Maps{m, []byte(m.UID.String()), []byte(m.GID.String())}, nil
}

// factsFor looks for sub-ids and helpers when a map is the first to need them.
func (o *Opener) factsFor(uid, gid IDMap) (*Facts, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.full || o.facts.Privileged || (uid.isSingle(o.facts.UID) && gid.isSingle(o.facts.GID)) {
		return o.facts, nil
	}
	facts, err := Probe(ProbeOptions{})
	if err != nil {
		return nil, err
	}
	o.facts, o.full = facts, true
	return facts, nil
}
