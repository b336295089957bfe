package core

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/clock"
)

// Unlimited returns a limiter that grants every request, for code that requires a limiter when
// none is wanted. Available returns math.MaxInt. It answers negative permits, a done context
// and requests after Close as any other limiter does, and it counts its grants.
func Unlimited() Limiter {
	u := new(unlimited)
	u.clock.Start()
	return u
}

type unlimited struct {
	handle  handle // of all leases
	clock   clock.Clock
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
	return newLease(&u.handle, granted, permits, unknown, unknown, 0)
}

func (u *unlimited) Acquire(ctx context.Context, permits int) (Lease, error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return Fail(err), err
	}
	l := u.TryAcquire(permits)
	return l, l.Err()
}

func (u *unlimited) TryQuietly(permits int) (Lease, bool) {
	if permits < 0 || u.closed.Load() {
		return Lease{}, false
	}
	u.granted.Add(1)
	return newLease(&u.handle, granted, permits, unknown, unknown, 0), true
}

func (u *unlimited) Available() int { return math.MaxInt }

func (u *unlimited) Statistics() Statistics {
	return Statistics{Limit: math.MaxInt, Available: math.MaxInt, Granted: u.granted.Load()}
}

// IdleFor returns the time since the limiter was made: nothing can be taken from it.
func (u *unlimited) IdleFor() (time.Duration, bool) {
	return time.Duration(max(u.clock.Elapsed(), 0)), true
}

func (u *unlimited) Refund(Lease) {}

// Settle returns a lease of the given number of permits.
func (u *unlimited) Settle(l Lease, permits int) Lease {
	if !u.handle.of(l) {
		return l
	}
	return l.replacement(&u.handle, granted, max(permits, 0), 0)
}

func (u *unlimited) Close() error {
	u.closed.Store(true)
	return nil
}

func (u *unlimited) String() string { return "unlimited: " + u.Statistics().String() }
