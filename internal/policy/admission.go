package policy

import (
	"context"
	"slices"

	"github.com/sluice-go/sluice/core"
)

// Admission is a request on its way through policies. Its Snapshot is set before the first Admit. It must
// not be copied, and is for one goroutine at a time; Lease may be called by any once Admit has returned.
type Admission[R any] struct {
	Snapshot  *Snapshot[R]
	Decisions []Decision[R] // so far, of the policies that apply

	first [1]Decision[R] // where Decisions begins: most requests are under one policy
}

// Mode is which permits an Admit takes.
type Mode uint8

// The modes.
const (
	Wait  Mode = iota // waits for permits as long as each policy allows
	Try               // takes permits that are available now
	Early             // as Try, and leaves policies that allow a wait to a later Admit
)

// Admit has the policies of these names decide about the request, in order, up to the first that rejects
// it; without names, all policies that apply and have not decided before. It returns nil if the request may
// proceed. If it is rejected, or Admit panics, the admission holds nothing, and what an earlier Admit took is given
// back too.
func (a *Admission[R]) Admit(ctx context.Context, r R, mode Mode, names ...string) *Rejection[R] {
	granted := false
	defer func() {
		if !granted {
			a.Undo()
		}
	}()
	if a.Decisions == nil {
		a.Decisions = a.first[:0]
	}
	if len(names) == 0 {
		names = every
	}
	before := a.Decisions
	for _, name := range names {
		for _, p := range a.Snapshot.find(name) {
			if p.Applies != nil && !p.Applies(r) || mode == Early && p.MaxWait != 0 || decided(before, p) {
				continue
			}
			if rejection := a.decide(ctx, r, p, mode); rejection != nil {
				return rejection
			}
		}
	}
	granted = true
	return nil
}

func decided[R any](decisions []Decision[R], p *Policy[R]) bool {
	return slices.ContainsFunc(decisions, func(d Decision[R]) bool { return d.Policy == p })
}

// Lease returns one lease for those of all decisions, with the permits of the one that took most; false if
// there is none. Of the metadata of a name the first decision's counts.
func (a *Admission[R]) Lease() (core.Lease, bool) {
	if len(a.Decisions) == 1 && a.Decisions[0].active == nil {
		return a.Decisions[0].Lease, a.Decisions[0].Lease.Acquired()
	}
	permits, found := 0, false
	var union []core.Metadata
	for _, d := range slices.Backward(a.Decisions) { // Grant has the later win
		lease := d.Lease
		if !lease.Acquired() {
			continue
		}
		found = true
		permits = max(permits, lease.Permits())
		for name, value := range lease.Metadata() {
			union = append(union, core.NewMetadataKey[any](name).With(value))
		}
	}
	if !found {
		return core.Lease{}, false
	}
	return core.Grant(permits, func() { a.End(nil) }, union...), true
}

// Undo gives all permits back, those of rate limiters too. There are no decisions then.
func (a *Admission[R]) Undo() {
	decisions := a.Decisions
	a.Decisions = nil
	end(decisions, (*Decision[R]).Refund)
}

// End releases all leases. settle, unless it is nil, is called for each before, and may Settle or Refund it.
func (a *Admission[R]) End(settle func(*Decision[R])) { end(a.Decisions, settle) }

// end ends the decisions, last first, all of them even if a function panics.
func end[R any](decisions []Decision[R], settle func(*Decision[R])) {
	n := len(decisions)
	if n == 0 {
		return
	}
	defer end(decisions[:n-1], settle)
	d := &decisions[n-1]
	defer d.release()
	if settle != nil && d.Lease.Acquired() {
		settle(d)
	}
}
