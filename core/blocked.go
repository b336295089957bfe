package core

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/internal/wait"
)

// Blocked returns a limiter that rejects every request, the opposite of [Unlimited]. Its Limit is 0. Acquire
// rejects immediately, and so do calls that always wait with other limiters, such as a channel's Send. The
// rejections match [ErrRejected] and have no [RetryAfter]. Negative permits, a done context and requests
// after Close are errors, as for any limiter.
//
// To make callers wait, set a [Switch] to Blocked: Acquire of the Switch waits until Set replaces the
// limiter, and TryAcquire of the Switch is rejected.
func Blocked() Limiter {
	b := new(blocked)
	b.unlimited.clock.Start()
	return b
}

type blocked struct {
	unlimited unlimited // for its clock
	rejected  atomic.Uint64
	closing   wait.Source // ended by Close; not a channel, which would belong to one synctest bubble

	mu     sync.Mutex // guards what follows
	queued machine.Total
}

func (b *blocked) TryAcquire(permits int) Lease {
	switch {
	case permits < 0:
		return Lease{bits: uint64(negative)}
	case b.closing.Cause() != nil:
		return Lease{bits: uint64(closed)}
	}
	b.rejected.Add(1)
	return newLease(nil, exhausted, permits, unknown, unknown, 0)
}

func (b *blocked) Acquire(ctx context.Context, permits int) (Lease, error) {
	return acquireNow(ctx, b, permits)
}

// wait waits until ctx is done or the limiter is closed.
func (b *blocked) wait(ctx context.Context, permits int) (Lease, error) {
	b.queue(permits)
	defer b.queue(-permits)
	call := b.closing.Begin(ctx)
	defer call.End()
	<-call.Done()
	if err := ctx.Err(); err != nil {
		return Fail(err), err
	}
	return Lease{bits: uint64(closed)}, ErrClosed
}

// queue adds permits to those that wait.
func (b *blocked) queue(permits int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queued.Add(permits)
}

// Reserve rejects: there will be no permits.
func (b *blocked) Reserve(permits int) Lease { return b.TryAcquire(permits) }

func (b *blocked) TryQuietly(int) (Lease, bool) { return Lease{}, false }
func (b *blocked) Available() int               { return 0 }

func (b *blocked) Statistics() Statistics {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Statistics{Queued: b.queued.Int(), Rejected: b.rejected.Load()}
}

// IdleFor returns the time since the limiter was made: nothing can be taken from it.
func (b *blocked) IdleFor() (time.Duration, bool) { return b.unlimited.IdleFor() }

func (b *blocked) Refund(Lease)                {}
func (b *blocked) Settle(l Lease, _ int) Lease { return l }
func (b *blocked) String() string              { return "blocked: " + b.Statistics().String() }
func (b *blocked) itself() Limiter             { return b }

func (b *blocked) Close() error {
	b.closing.End(ErrClosed)
	return nil
}
