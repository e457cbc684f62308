package userns

import (
	"errors"
	"fmt"
)

// mechanism is the one in use: the first of those wished for that can be prepared here.
func (o *Opener) mechanism() (*prepared, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.now == nil {
		if len(o.wish) == 0 {
			return nil, errors.Join(append([]error{errNoMechanism}, o.lost...)...)
		}
		m := o.wish[0]
		maker, err := newMaker(m)
		if err != nil {
			if !unavailable(err) {
				return nil, err
			}
			o.lost = append(o.lost, err)
			o.dropLocked(m, err)
			continue
		}
		o.use(m, maker)
	}
	return o.now, nil
}

var errNoMechanism = errors.New("userns: no mechanism to open a user namespace works here")

func (o *Opener) use(m Mechanism, mk maker) {
	deny := !o.facts.Privileged
	o.now = &prepared{m, mk, directProgram(mk.acts(), deny), helperProgram(mk.acts(), deny)}
	o.report.Mechanism = m
	o.noteLocked(mk.note())
}

// dropLocked takes a mechanism off the list of wishes.
func (o *Opener) dropLocked(m Mechanism, err error) {
	o.wish = o.wish[1:]
	if len(o.wish) > 0 {
		o.noteLocked(fmt.Sprintf("the mechanism %s can't be used here: %v", m, err))
	}
}

// passOver leaves a mechanism whose use failed for good. false: it didn't, or there is no other.
func (o *Opener) passOver(t *prepared, err error) bool {
	if !unavailable(err) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now != t { // another goroutine did it
		return o.now != nil || len(o.wish) > 0
	}
	if len(o.wish) < 2 {
		return false
	}
	o.dropLocked(t.name, err)
	o.past, o.now = append(o.past, t.maker), nil // other openings may be using it
	return true
}
