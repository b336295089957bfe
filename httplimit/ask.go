package httplimit

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
)

// ask is a policy that a request was asked about. It does not change once the request's handler
// is called.
type ask struct {
	policy  *policy
	limiter core.Limiter // the policy's, bound to the request as it came; nil: bytes only
	lease   core.Lease   // the limiter's answer
	told    *core.Lease  // its release tells the Observer that lease has ended; nil: nobody is told
}

// observe tells the Observer of the grant, and has it told of the release.
func (a *ask) observe(ctx context.Context, o Observer) {
	name, since := a.policy.Name, time.Now()
	told := core.Grant(0, func() {
		lasted := time.Since(since)
		defer o.Released(ctx, name, lasted)
		o.Active(ctx, name, -1)
	})
	a.told = &told
	o.Active(ctx, name, +1)
}

// plain reports whether to end the ask is to release its lease, and no more.
func (a *ask) plain() bool {
	return a.policy.Refund == nil && a.policy.Settle == nil && a.told == nil
}

// release ends the lease.
func (a *ask) release() {
	if a.told != nil {
		defer a.told.Release()
	}
	a.lease.Release()
}

// refund gives the permits back, those of a rate limiter too.
func (a *ask) refund() {
	defer a.release()
	if a.lease.Acquired() {
		limiter.Refund(a.limiter, a.lease)
	}
}

// settle ends the lease of a request that was answered with this status and header. known is
// false if the client has left: the status may be no answer at all.
func (a *ask) settle(r *http.Request, known bool, status int, h http.Header) {
	defer a.release()
	if !a.lease.Acquired() {
		return
	}
	if refund := a.policy.Refund; refund != nil && known && refund(r, status) {
		limiter.Refund(a.limiter, a.lease)
		return
	}
	if a.policy.Settle != nil {
		settle(a.limiter, a.lease, a.policy.Settle(r, status, h))
	}
}

// settle ends the lease at another cost, unless that is below 0.
func settle(l core.Limiter, lease core.Lease, cost int) {
	if s, ok := l.(core.Settler); ok && cost >= 0 {
		s.Settle(lease, cost).Release()
	}
}

// endAll ends the asks, last first, all of them even if one panics.
func endAll(asked []ask, end func(*ask)) {
	if n := len(asked); n > 0 {
		defer endAll(asked[:n-1], end)
		end(&asked[n-1])
	}
}

// LeaseFrom returns the lease of a request, in its handler: one lease for all permits of the
// innermost wrapper, which is the handler that [Limits.Handler] or the middleware of
// [Limits.Policy] returned. A handler that has done the limited work, and continues with something
// else, may release it early; otherwise it is released when the handler returns. Its Permits are
// those of the policy that took most. LeaseFrom returns false if there is no lease.
func LeaseFrom(ctx context.Context) (core.Lease, bool) {
	p := passageFrom(ctx)
	if p == nil {
		return core.Lease{}, false
	}
	return combine(p.asked)
}

// combine returns one lease for those of all asks; false if there is none. Of equal metadata the
// first counts.
func combine(asked []ask) (core.Lease, bool) {
	if len(asked) == 1 && asked[0].told == nil {
		return asked[0].lease, asked[0].lease.Acquired()
	}
	permits, found := 0, false
	var union []core.Metadata
	for _, a := range slices.Backward(asked) { // Grant has the later win
		if !a.lease.Acquired() {
			continue
		}
		found = true
		permits = max(permits, a.lease.Permits())
		for name, value := range a.lease.Metadata() {
			union = append(union, core.NewMetadataKey[any](name).With(value))
		}
	}
	if !found {
		return core.Lease{}, false
	}
	return core.Grant(permits, func() { endAll(asked, (*ask).release) }, union...), true
}
