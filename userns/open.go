package userns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia.dev/nsexec"
)

// Open makes a user namespace with these maps and returns an fd of it, close-on-exec: for idmapped mounts
// (MOUNT_ATTR_IDMAP, mount_setattr(2)), setns(2), or another child's CLONE_NEWUSER below it. The namespace lives as
// long as the fd, or a process or mount that uses it; no process is left. The outside ids are ids of our own
// namespace.
//
// Root may map any ids that exist here. An ordinary user may map his own id alone, which is written directly, and
// his sub-ids, which newuidmap(1) and newgidmap(1) write. What can be known to be wrong is a *PlanError before
// anything is made; what the kernel refuses is an *OpenError with step, call, errno, cause and remedy. Nothing is
// left of an opening that failed or whose context ended. An *os.File is returned that is in blocking mode: it can't
// be polled.
//
// Linux 5.3 (CLONE_PIDFD with clone3(2)), user_namespaces(7). Each call finds out anew who the caller is; who opens
// many keeps an [Opener].
func Open(ctx context.Context, uid, gid IDMap, opts ...Option) (*os.File, error) {
	o, err := NewOpener(opts...)
	if err != nil {
		return nil, err
	}
	file, err := o.Open(ctx, uid, gid)
	return file, errors.Join(err, o.Close())
}

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

var errClosed = fmt.Errorf("userns: the Opener is closed: %w", os.ErrClosed)

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

// Open is [Open] with what the Opener knows already. The namespace's child has been killed, but may still be dying: see
// [Opener.Settle].
func (o *Opener) Open(ctx context.Context, uid, gid IDMap) (*os.File, error) {
	files, err := o.OpenBatch(ctx, uid, gid, 1)
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// OpenBatch opens n namespaces with the same maps at once: children die while others are made.
func (o *Opener) OpenBatch(ctx context.Context, uid, gid IDMap, n int) ([]*os.File, error) {
	m, err := o.Prepare(uid, gid)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, &PlanError{Reason: ReasonBadRequest, Cause: fmt.Sprintf("%d user namespaces", n), Remedy: "ask for none or more"}
	}
	fds := make([]int, n)
	if err := o.OpenMany(ctx, m, fds); err != nil {
		return nil, err
	}
	files := make([]*os.File, n)
	for i, fd := range fds {
		files[i] = newFile(fd)
	}
	return files, nil
}

func newFile(fd int) *os.File { return os.NewFile(uintptr(fd), "user namespace") }

// OpenRaw is Open for prepared maps; the fd, close-on-exec, is the caller's. With the mechanism vm and maps that are
// written directly it allocates nothing. The namespace's child has been killed, but may still be dying: see
// [Opener.Settle].
func (o *Opener) OpenRaw(ctx context.Context, m *Maps) (int, error) {
	fds := [1]int{-1}
	err := o.OpenMany(ctx, m, fds[:])
	return fds[0], err
}

// OpenMany fills fds with as many new namespaces with the same maps: children die while others are made. After an
// error none is left open and all fds are -1.
func (o *Opener) OpenMany(ctx context.Context, m *Maps, fds []int) error {
	for i := range fds {
		fds[i] = -1
	}
	if err := o.begin(); err != nil {
		return err
	}
	defer o.running.Done()
	for i := 0; i < len(fds); i += maxAtOnce {
		if err := o.openSome(ctx, m, fds[i:min(i+maxAtOnce, len(fds))]); err != nil {
			for k := range fds {
				closeFD(&fds[k])
			}
			return err
		}
	}
	return nil
}

// maxAtOnce bounds the children, and with them the fds, that one call has at a time.
const maxAtOnce = 16

func (o *Opener) openSome(ctx context.Context, m *Maps, fds []int) error {
	for {
		t, err := o.mechanism()
		if err != nil {
			return err
		}
		err = o.openBy(ctx, t, m, fds)
		if exhausted(err) && o.settled(ctx) {
			err = o.openBy(ctx, t, m, fds)
		}
		if err == nil || !o.passOver(t, err) {
			return err
		}
	}
}

// exhausted tells that a limit was reached which a zombie of ours counts against.
func exhausted(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EMFILE)
}

// settled is Settle, and whether there was a child to wait for.
func (o *Opener) settled(ctx context.Context) bool {
	o.dying.Lock()
	had := o.dying.child != nil || len(o.dying.late) > 0
	o.dying.Unlock()
	return had && o.Settle(ctx) == nil
}

// openBy opens len(fds) namespaces by one mechanism: all children are made, all maps written, all ends waited for.
func (o *Opener) openBy(ctx context.Context, t *prepared, m *Maps, fds []int) error {
	var room [maxAtOnce]opening
	list := room[:len(fds)]
	for i := range list {
		list[i] = newOpening()
	}
	p := &t.direct
	if !m.Direct() {
		p = &t.helped
	}
	err := o.openAll(ctx, t, p, m, list)
	for i := range list {
		if err != nil {
			list[i].abandon()
			continue
		}
		list[i].closeMaps()
		fds[i] = list[i].ns
	}
	return err
}

func (o *Opener) openAll(ctx context.Context, t *prepared, p *program, m *Maps, list []opening) error {
	at := 0
	for _, acts := range [...][]act{p.blank, p.fill, p.end} {
		for i := range list {
			if err := ctx.Err(); err != nil {
				return &cancelledError{context.Cause(ctx)}
			}
			if err := o.run(ctx, t, acts, at, p.len(), &list[i], m); err != nil {
				return err
			}
		}
		at += len(acts)
	}
	return nil
}
