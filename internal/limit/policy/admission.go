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

	// mu guards Decisions and ended once Admit has returned. It is held while a lease that was handed out is settled, so
	// that the end of the admission waits for the lease that replaces it.
	mu    sync.Mutex
	ended bool // whether the leases are being released; then none is replaced
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
		end(h.admission.final(), func(d *Decision[R, O]) { d.Lease.Refund() })
		return 0
	}
	return h.admission.settleOnly(had, permits)
}

// settleOnly settles the lease if there is only one, unless the admission has ended. It returns the permits that the
// request has then.
func (a *Admission[R, O]) settleOnly(had, permits int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	var only *Decision[R, O]
	leases := 0
	for i := range a.Decisions {
		if d := &a.Decisions[i]; d.Lease.Acquired() {
			only = d
			leases++
		}
	}
	if a.ended || leases != 1 {
		return had
	}
	only.Lease = only.Lease.Settle(permits)
	return only.Lease.Permits()
}

// final returns the decisions, whose leases do not change any more.
func (a *Admission[R, O]) final() []Decision[R, O] {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	return a.Decisions
}

// Undo refunds all permits, including those of rate limiters, and forgets the decisions.
func (a *Admission[R, O]) Undo() {
	a.mu.Lock()
	decisions := a.Decisions
	a.Decisions = nil
	a.mu.Unlock()
	end(decisions, func(d *Decision[R, O]) { d.Lease.Refund() })
}

// Release releases all leases.
func (a *Admission[R, O]) Release() { end(a.final(), nil) }

// End releases all leases. For each of them it first calls ended with the policy: the permits are refunded if that
// returns true; otherwise their cost is corrected, unless it is negative.
func (a *Admission[R, O]) End(ended func(O) (refund bool, cost int)) {
	end(a.final(), func(d *Decision[R, O]) {
		if yes, cost := ended(d.Policy.Own); yes {
			d.Lease.Refund()
		} else if cost >= 0 {
			d.Lease.Settle(cost).Release()
		}
	})
}

// end releases the decisions, last first, all of them even if a function panics. It calls before, unless that is
// nil, for each one that holds a lease.
func end[R, O any](decisions []Decision[R, O], before func(*Decision[R, O])) {
	n := len(decisions)
	if n == 0 {
		return
	}
	defer end(decisions[:n-1], before)
	d := &decisions[n-1]
	defer d.release()
	if before != nil && d.Lease.Acquired() {
		before(d)
	}
}
