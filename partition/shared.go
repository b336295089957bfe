package partition

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Shared returns l as a limiter that ignores the request: for a [Chain] of a limit per key and
// a limit for all keys together. It passes every call on and is a [Refunder] and a [Settler].
// If l is nil, every request fails.
func Shared[R any](l core.Limiter) Limiter[R] {
	if backdoor.IsNil(l) {
		return always[R](refuse(errSharedNil))
	}
	return always[R](complete(l))
}

// always returns a Limiter for which b decides all requests.
func always[R any](b bound) Limiter[R] {
	return &composed[R]{
		of:         func(R, bool) bound { return b },
		statistics: func(R) (core.Statistics, bool) { return b.Statistics(), true },
		asks:       func() []any { return ways.Roots(b) },
		title:      func() string { return "shared " + backdoor.Describe(b) },
	}
}

// complete returns l itself if it has all methods of bound, and otherwise l with the methods that it lacks.
func complete(l core.Limiter) bound {
	if b, ok := l.(bound); ok && !ways.Embeds(l) { // a promoted Settle would bypass its Refund
		return b
	}
	return &completed{l}
}

type completed struct{ core.Limiter }

// Reserve is the limiter's, if it is a [core.Reserver].
func (c *completed) Reserve(permits int) core.Lease { return ways.Reserve(c.Limiter, permits) }

// TryQuietly is [core.TryQuietly].
func (c *completed) TryQuietly(permits int) (core.Lease, bool) {
	return core.TryQuietly(c.Limiter, permits)
}

func (c *completed) AcquireWaiting(ctx context.Context, permits int) (core.Lease, error) {
	return ways.AcquireWaiting(ctx, c.Limiter, permits)
}

// Unwrap returns the limiter that this is a view of.
func (c *completed) Unwrap() core.Limiter { return c.Limiter }

func (c *completed) Refund(l core.Lease) { backdoor.Refund(c.Limiter, l) }

func (c *completed) Settle(l core.Lease, permits int) core.Lease {
	return backdoor.Settle(c.Limiter, l, permits)
}

func (c *completed) Statistics() core.Statistics { return statistics(c.Limiter) }
func (c *completed) String() string              { return backdoor.Describe(c.Limiter) }
