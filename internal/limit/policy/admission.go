package policy

import (
	"context"
	"slices"
	"sync"

	"github.com/sluice-go/sluice/core"
)

// Admission is a request on its way through policies. Its Snapshot is set before the first Admit. It must
// not be copied. One goroutine at a time may use it; once Admit has returned, any goroutine may call Lease and use its
// result, also after the end of the admission: a handler may outlive its http.TimeoutHandler.
type Admission[R, O any] struct {
	Snapshot  *Snapshot[R, O]
	Decisions []Decision[R, O] // so far, of the policies that apply

	first [1]Decision[R, O] // backing array of Decisions, because most requests are under one policy

	mu       sync.Mutex      // guards what follows, and Decisions once Admit has returned; a leaf
	ended    bool            // whether the leases are being released; then none is replaced
	settling *Decision[R, O] // decision of the only lease, while that is being settled; otherwise nil
	ends     []ending[R, O]  // what to do once it has been replaced
}

// ending is the end of an admission.
type ending[R, O any] struct {
	decisions []Decision[R, O]
	ended     func(O) (refund bool, cost int) // called for each decision that holds a lease; nil if the costs stay as they are
}

// refunded is the end of a request that cost nothing.
func refunded[O any](O) (refund bool, cost int) { return true, 0 }

// settle refunds the lease, or corrects its cost unless that is negative.
func (d *Decision[R, O]) settle(refund bool, cost int) {
	switch {
	case refund:
		d.Lease.Refund()
	case cost >= 0:
		d.Lease.Settle(cost).Release()
	}
}

// Mode selects which permits an Admit takes.
type Mode uint8

// The modes.
const (
	Wait  Mode = iota // wait for permits as long as each policy allows
	Try               // take only permits that are available now
	Early             // like Try, but leave policies that allow a wait to a later Admit
)

// Admit asks the policies with these names, in order, up to the first that rejects the request. Without names it
// calls all policies that apply and have not decided before. It returns nil if the request may proceed. If a policy
// rejects the request, or Admit panics, the admission refunds everything, including the permits of an earlier Admit.
func (a *Admission[R, O]) Admit(ctx context.Context, r R, mode Mode, names ...string) *Rejection[R, O] {
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
		names = all
	}
	before := a.Decisions
	for _, name := range names {
		for _, p := range a.Snapshot.named[name] {
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

func decided[R, O any](decisions []Decision[R, O], p *Policy[R, O]) bool {
	return slices.ContainsFunc(decisions, func(d Decision[R, O]) bool { return d.Policy == p })
}

// Lease returns one lease that stands for the leases of all decisions, or false if there is none. Its Permits are
// the largest of theirs. If several leases have metadata of one name, the first lease's value counts. A Refund refunds
// all of them; only a lease that stands for one can be settled to other permits.
func (a *Admission[R, O]) Lease() (core.Lease, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
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
	return core.GrantFrom(handed[R, O]{a}, permits, union...), true
}

// handed is an Admission whose lease was handed out.
type handed[R, O any] struct{ admission *Admission[R, O] }

// Release releases all leases.
func (h handed[R, O]) Release(int) { h.admission.Release() }

// Settle refunds all leases, or settles the only one.
func (h handed[R, O]) Settle(had, permits int) int {
	if permits == 0 {
		h.admission.finish(refunded[O])
		return 0
	}
	return h.admission.settleOnly(had, permits)
}

// settleOnly settles the lease if there is only one, unless the admission has ended or another call settles it. It
// returns the permits that the request has then. The limiter may be a user's and call anything, so no lock is held: an end
// of the admission that comes meanwhile happens afterwards, to the lease that replaces this one.
func (a *Admission[R, O]) settleOnly(had, permits int) int {
	only := a.startSettling()
	if only == nil {
		return had
	}
	lease := only.Lease
	defer func() { a.stopSettling(only, lease) }()
	lease = lease.Settle(permits)
	return lease.Permits()
}

// startSettling returns the decision whose lease the caller may settle, or nil. It has to call stopSettling.
func (a *Admission[R, O]) startSettling() (only *Decision[R, O]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	leases := 0
	for i := range a.Decisions {
		if d := &a.Decisions[i]; d.Lease.Acquired() {
			only = d
			leases++
		}
	}
	if a.ended || a.settling != nil || leases != 1 {
		return nil
	}
	a.settling = only
	return only
}

func (a *Admission[R, O]) stopSettling(only *Decision[R, O], replaced core.Lease) {
	a.mu.Lock()
	only.Lease = replaced
	ends := a.ends
	a.settling, a.ends = nil, nil
	a.mu.Unlock()
	for _, e := range slices.Backward(ends) { // the first runs first, and the others also if it panics
		defer e.do() //nolint:gocritic,revive // they are few, and none may keep the others from theirs
	}
}

// finish ends all leases. Then none is replaced any more. While one is being settled, that is put off.
func (a *Admission[R, O]) finish(ended func(O) (refund bool, cost int)) {
	a.mu.Lock()
	a.ended = true
	e := ending[R, O]{a.Decisions, ended}
	later := a.settling != nil
	if later {
		a.ends = append(a.ends, e)
	}
	a.mu.Unlock()
	if !later {
		e.do()
	}
}

// Undo refunds all permits, including those of rate limiters, and forgets the decisions.
func (a *Admission[R, O]) Undo() {
	defer func() {
		a.mu.Lock()
		a.Decisions = nil
		a.mu.Unlock()
	}()
	a.finish(refunded[O])
}

// Release releases all leases.
func (a *Admission[R, O]) Release() { a.finish(nil) }

// End releases all leases. For each of them it first calls ended with the policy: the permits are refunded if that
// returns true; otherwise their cost is corrected, unless it is negative.
func (a *Admission[R, O]) End(ended func(O) (refund bool, cost int)) {
	a.mu.Lock()
	a.ended = true
	only := a.settling
	a.mu.Unlock()
	if only == nil {
		a.finish(ended)
		return
	}
	refund, cost := false, -1
	defer func() { // also if ended panics
		a.finish(func(O) (bool, int) { return refund, cost })
	}()
	refund, cost = ended(only.Policy.Own) // now, because the request ends
}

// do ends the leases, last first, all of them even if a function panics.
func (e ending[R, O]) do() {
	n := len(e.decisions)
	if n == 0 {
		return
	}
	defer ending[R, O]{e.decisions[:n-1], e.ended}.do()
	d := &e.decisions[n-1]
	defer d.release()
	if e.ended != nil && d.Lease.Acquired() {
		d.settle(e.ended(d.Policy.Own))
	}
}
