package policy

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
)

// Ask is what a policy has answered.
type Ask[R, O any] struct {
	Policy  *Policy[R, O]
	Limiter core.Limiter // the policy's, bound to the request as it came
	Lease   core.Lease   // the limiter's answer
	told    *core.Lease  // its release notifies the Observer that the lease has ended; nil: there is none
}

// observe notifies the Observer of the grant, and of the release when it comes.
func (a *Ask[R, O]) observe(ctx context.Context, o Observer) {
	name, since := a.Policy.Name, time.Now()
	told := core.Grant(0, func() {
		lasted := time.Since(since)
		defer o.Released(ctx, name, lasted)
		o.Active(ctx, name, -1)
	})
	a.told = &told
	o.Active(ctx, name, +1)
}

// Observed reports whether an Observer is notified of the release.
func (a *Ask[R, O]) Observed() bool { return a.told != nil }

// Release ends the lease.
func (a *Ask[R, O]) Release() {
	if a.told != nil {
		defer a.told.Release()
	}
	a.Lease.Release()
}

// Refund ends the lease, and gives its permits back, those of a rate limiter too.
func (a *Ask[R, O]) Refund() {
	defer a.Release()
	if a.Lease.Acquired() {
		limiter.Refund(a.Limiter, a.Lease)
	}
}

// Settle ends the lease of a request with that outcome, as the policy has it. known is false if
// the client has left: the outcome may be no answer at all, and the permits are not refunded.
func (a *Ask[R, O]) Settle(r R, o O, known bool) {
	defer a.Release()
	if !a.Lease.Acquired() {
		return
	}
	if known && a.Policy.Refund != nil && a.Policy.Refund(r, o) {
		limiter.Refund(a.Limiter, a.Lease)
		return
	}
	if a.Policy.Settle != nil {
		Settle(a.Limiter, a.Lease, a.Policy.Settle(r, o))
	}
}

// Settle ends the lease at another cost, unless that is below 0 or l cannot settle: then the
// caller's Release ends it.
func Settle(l core.Limiter, lease core.Lease, cost int) {
	if s, ok := l.(core.Settler); ok && cost >= 0 {
		s.Settle(lease, cost).Release()
	}
}

// Plain reports whether to end the ask is to release its lease, and no more.
func (a *Ask[R, O]) Plain() bool {
	return a.Policy.Refund == nil && a.Policy.Settle == nil && !a.Observed()
}

// End ends the asks, last first, all of them even if one panics.
func End[R, O any](asked []Ask[R, O], end func(*Ask[R, O])) {
	if n := len(asked); n > 0 {
		defer End(asked[:n-1], end)
		end(&asked[n-1])
	}
}
