package core

import (
	"context"

	"github.com/sluice-go/sluice/internal/backdoor"
)

// Requests of this module's own primitives, such as a channel's Send, wait whatever QueueLimit is, as
// sending to a channel of Go does: QueueLimit is for servers, which bound the callers of Acquire. Such a
// request takes no room in the queue from others, and newer requests do not evict it.

// waitingLimiter is a limiter of this package that can be asked to wait whatever QueueLimit is.
type waitingLimiter interface {
	Limiter
	acquireWaiting(ctx context.Context, permits int) (Lease, error)
}

// acquireWaiting is l.Acquire, but the request waits in the queues of this package's limiters whatever their
// QueueLimit is: those of l, or those that l asks as a chain or a view. Any other limiter is asked by its
// Acquire. The answer is in valid form: see checkedAnswer.
func acquireWaiting(ctx context.Context, l Limiter, permits int) (Lease, error) {
	var k Lease
	var err error
	switch w := l.(type) {
	case waitingLimiter:
		if !embeds(l) {
			return w.acquireWaiting(ctx, permits)
		}
		k, err = l.Acquire(ctx, permits)
	case backdoor.Waiter[Lease]:
		k, err = w.AcquireWaiting(ctx, permits, backdoor.Asked{Limiter: l})
	default:
		k, err = l.Acquire(ctx, permits)
	}
	return checkedAnswer(l, k, err)
}

func (c *ChainedLimiter) acquireWaiting(ctx context.Context, permits int) (Lease, error) {
	return c.acquireAll(ctx, permits, beyond)
}

func (r *reasoned) acquireWaiting(ctx context.Context, permits int) (Lease, error) {
	l, err := acquireWaiting(ctx, r.Limiter, permits)
	return r.explained(ctx, l, err)
}
