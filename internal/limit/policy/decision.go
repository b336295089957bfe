package policy

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
)

// Decision is the decision of a policy about a request.
type Decision[R, O any] struct {
	Policy  *Policy[R, O]
	Limiter core.Limiter // the policy's, bound to the request; nil if it has none
	Lease   core.Lease   // the limiter's result

	active *active // nil if no Observer is notified of the release
}

// release releases the lease.
func (d *Decision[R, O]) release() {
	if d.active != nil {
		defer d.active.end()
	}
	d.Lease.Release()
}

// observe notifies the Observer of the grant now, and of the release when it comes.
func (d *Decision[R, O]) observe(ctx context.Context, o Observer) {
	d.active = &active{ctx: ctx, observer: o, policy: d.Policy.Name, since: time.Now()}
	o.Active(ctx, d.Policy.Name, +1)
}

// active is a lease whose release an Observer is notified of.
type active struct {
	ctx      context.Context
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
