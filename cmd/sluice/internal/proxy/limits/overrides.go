package limits

import (
	"context"
	"net/http"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// overridden asks one limiter for the keys of each override of a policy, and another for all other keys.
type overridden struct {
	values    func(*http.Request) []string
	overrides *config.Overrides
	own       []httplimit.Limiter // of each override
	others    httplimit.Limiter
}

// of returns the limiter for the key of r.
func (o *overridden) of(r *http.Request) httplimit.Limiter {
	if i, ok := o.overrides.Find(o.values(r)); ok {
		return o.own[i]
	}
	return o.others
}

func (o *overridden) TryAcquire(r *http.Request, permits int) core.Lease {
	return o.of(r).TryAcquire(r, permits)
}

func (o *overridden) Acquire(ctx context.Context, r *http.Request, permits int) (core.Lease, error) {
	return o.of(r).Acquire(ctx, r, permits)
}

// Refund gives a lease back to the limiter that granted it.
func (o *overridden) Refund(r *http.Request, l core.Lease) {
	if f, ok := o.of(r).(partition.Refunder[*http.Request]); ok {
		f.Refund(r, l)
	}
}

// Settle corrects the cost of a lease in the limiter that granted it.
func (o *overridden) Settle(r *http.Request, l core.Lease, permits int) core.Lease {
	if s, ok := o.of(r).(partition.Settler[*http.Request]); ok {
		return s.Settle(r, l, permits)
	}
	return l
}
