package core

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// Unlimited returns a limiter that grants every request, for code that requires a limiter when
// none is wanted. Available returns math.MaxInt. It answers negative permits, a done context
// and requests after Close as any other limiter does, and it counts its grants.
func Unlimited() Limiter { return &unlimited{base: time.Now()} }

type unlimited struct {
	base    time.Time
	granted atomic.Uint64
	closed  atomic.Bool
}

func (u *unlimited) TryAcquire(permits int) Lease {
	switch {
	case permits < 0:
		return Lease{bits: uint64(negative)}
	case u.closed.Load():
		return Lease{bits: uint64(closed)}
	}
	u.granted.Add(1)
	return grant(nil, free, 0, permits, -1, -1)
}

func (u *unlimited) Acquire(ctx context.Context, permits int) (Lease, error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return Refuse(err), err
	}
	l := u.TryAcquire(permits)
	return l, l.Err()
}

func (u *unlimited) tryQuietly(permits int) (Lease, bool) {
	if permits < 0 || u.closed.Load() {
		return Lease{}, false
	}
	u.granted.Add(1)
	return grant(nil, free, 0, permits, -1, -1), true
}

func (u *unlimited) Available() int { return math.MaxInt }

func (u *unlimited) Statistics() Statistics {
	return Statistics{Limit: math.MaxInt, Available: math.MaxInt, Granted: u.granted.Load()}
}

// IdleFor returns the time since the limiter was made: nothing can be taken from it.
func (u *unlimited) IdleFor() (time.Duration, bool) { return time.Since(u.base), true }

func (u *unlimited) Refund(Lease) {}

// Settle returns a lease of the given number of permits.
func (u *unlimited) Settle(l Lease, permits int) Lease {
	if l.outcome() != free || l.terms() != nil {
		return l
	}
	return l.complete(max(permits, 0))
}

func (u *unlimited) Close() error {
	u.closed.Store(true)
	return nil
}

func (u *unlimited) String() string { return "unlimited: " + u.Statistics().String() }
