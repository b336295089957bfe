package policy

import (
	"context"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/backoff"
	"github.com/sluice-go/sluice/partition"
)

// Attempt is one attempt of a client to send a request, and the lease that it holds. The zero Attempt holds none.
type Attempt struct {
	lease core.Lease // not acquired if the request is not limited
	ended atomic.Bool
}

// Start waits until the key may be used again and l has granted a the permits that r costs: 1 if cost is nil. The
// request is not limited if l is nil or its cost is 0 or less. The lease of an error is l's.
func Start[R, V any](ctx context.Context, a *Attempt, r R, l partition.Limiter[R], cost func(R) int,
	held *backoff.Keys[V], key string,
) (core.Lease, error) {
	permits := 1
	if cost != nil {
		permits = cost(r)
	}
	var limiter core.Limiter // nil if the request is not limited
	if l != nil && permits > 0 {
		limiter = partition.For(l, r)
	}
	lease, err := held.Acquire(ctx, key, limiter, permits)
	if err == nil {
		a.lease = lease
	}
	return lease, err
}

// Limited reports whether the attempt holds a lease, unless it has ended.
func (a *Attempt) Limited() bool { return a.lease.Acquired() }

// End releases the lease, once; a call that comes while settle runs does not wait. settle, unless it is nil, returns the actual cost of the request in permits; a
// negative one leaves the cost as it is. It is not called if the request is not limited.
func (a *Attempt) End(settle func() int) {
	if a.ended.Swap(true) {
		return
	}
	defer a.lease.Release()
	if settle == nil || !a.lease.Acquired() {
		return
	}
	if cost := settle(); cost >= 0 {
		a.lease.Settle(cost).Release()
	}
}
