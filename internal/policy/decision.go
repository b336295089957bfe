package policy

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Decision is what a policy has decided about a request.
type Decision[R any] struct {
	Policy  *Policy[R]
	Limiter core.Limiter // the policy's, bound to the request; nil: it has none
	Lease   core.Lease   // the limiter's answer

	active *active // nil: no Observer is notified of the release
}

// Refund gives the permits back, those of a rate limiter too.
func (d *Decision[R]) Refund() { backdoor.Refund(d.Limiter, d.Lease) }

// Settle corrects the cost, unless that is below 0 or the limiter is no core.Settler.
func (d *Decision[R]) Settle(cost int) { Settle(d.Limiter, d.Lease, cost) }

// Settle corrects the cost of a lease and ends it, unless cost is below 0 or l is no core.Settler: then the
// caller's Release ends it.
func Settle(l core.Limiter, lease core.Lease, cost int) {
	if _, ok := l.(core.Settler); ok && cost >= 0 {
		backdoor.Settle(l, lease, cost).Release()
	}
}

// release ends the lease.
func (d *Decision[R]) release() {
	if d.active != nil {
		defer d.active.end()
	}
	d.Lease.Release()
}

// observe notifies the Observer of the grant, and of the release when it comes.
func (d *Decision[R]) observe(ctx context.Context, o Observer) {
	d.active = &active{ctx: ctx, observer: o, policy: d.Policy.Name, since: time.Now()}
	o.Active(ctx, d.Policy.Name, +1)
}

// active is a lease whose release an Observer is notified of.
type active struct {
	ctx      context.Context //nolint:containedctx // the request's
	observer Observer
	policy   string
	since    time.Time
	ended    atomic.Bool
}

// end notifies the Observer, once.
func (a *active) end() {
	if a.ended.CompareAndSwap(false, true) {
		held := time.Since(a.since)
		defer a.observer.Released(a.ctx, a.policy, held)
		a.observer.Active(a.ctx, a.policy, -1)
	}
}
