package core

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/clock"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/internal/wait"
)

// Unlimited returns a limiter that grants every request, for code that requires a limiter where you
// want no limit. Available returns math.MaxInt. Negative permits, a done context and requests after
// Close are errors, as for any limiter. The statistics count its grants.
func Unlimited() Limiter {
	u := new(unlimited)
	u.clock.Start()
	return u
}

type unlimited struct {
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
	return newLease(&free, granted, permits, unknown, unknown, 0)
}

func (u *unlimited) Acquire(ctx context.Context, permits int) (Lease, error) {
	return acquireNow(ctx, u, permits)
}

// acquireNow is the Acquire of a limiter in which no request waits.
func acquireNow(ctx context.Context, l Limiter, permits int) (Lease, error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return Fail(err), err
	}
	return l.TryAcquire(permits).asError()
}

func (u *unlimited) TryQuietly(permits int) (Lease, bool) {
	l := u.TryAcquire(permits)
	return l, l.Acquired()
}

// Reserve grants the permits immediately.
func (u *unlimited) Reserve(permits int) Lease {
	l := u.TryAcquire(permits)
	if !l.Acquired() {
		return l
	}
	return l.delayed(0)
}

func (u *unlimited) Available() int { return math.MaxInt }

func (u *unlimited) Statistics() Statistics {
	return Statistics{Limit: math.MaxInt, Available: math.MaxInt, Granted: u.granted.Load()}
}

// IdleFor returns the time since the limiter was made: nothing can be taken from it.
func (u *unlimited) IdleFor() (time.Duration, bool) {
	return time.Duration(max(u.clock.Elapsed(), 0)), true
}

func (u *unlimited) Close() error {
	u.closed.Store(true)
	return nil
}

func (u *unlimited) String() string { return "unlimited: " + u.Statistics().String() }

func (u *unlimited) itself() Limiter { return u }

func (u *unlimited) isClosed() bool { return u.closed.Load() }

// Blocked returns a limiter that rejects every request, the opposite of [Unlimited]. Its Limit is 0. Acquire
// rejects immediately, and so do calls that always wait with other limiters, such as a channel's Send. The
// reason is "blocked". The rejections match [ErrRejected], never [ErrPermitsExceedLimit], and have no
// [RetryAfter]. Negative permits, a done context and requests after Close are errors, as for any limiter.
//
// To make callers wait instead, use [Paused].
func Blocked() Limiter { return newShut(barred) }

// Paused returns a limiter that grants nothing for now, for bandwidth that is switched off. Its Limit and
// Available are 0. TryAcquire rejects with the reason "paused" and without [RetryAfter]. Acquire waits until
// ctx is done, the limiter is closed, or a [Switch] puts another limiter in its place. Negative permits, a
// done context and requests after Close are errors, as for any limiter.
func Paused() Limiter { return newShut(paused) }

// shut is a limiter that grants nothing.
type shut struct {
	settings *settings // settings of its rejections
	reason   outcome   // barred, or paused if Acquire waits
	clock    clock.Clock
	rejected atomic.Uint64
	closing  wait.Source // ended by Close; not a channel, which would belong to one synctest bubble

	mu     sync.Mutex // guards what follows
	queued machine.Total
}

func newShut(reason outcome) *shut {
	s := &shut{settings: settingsOf(label{}, machine.Terms{Mode: machine.Held}), reason: reason}
	s.clock.Start()
	return s
}

func (s *shut) TryAcquire(permits int) Lease {
	switch {
	case permits < 0:
		return Lease{bits: uint64(negative)}
	case s.closing.Cause() != nil:
		return Lease{bits: uint64(closed)}
	}
	s.rejected.Add(1)
	return newLease(&s.settings.shared, s.reason, permits, 0, unknown, 0)
}

func (s *shut) Acquire(ctx context.Context, permits int) (Lease, error) {
	if s.reason == barred {
		return acquireNow(ctx, s, permits)
	}
	if permits < 0 {
		return Lease{bits: uint64(negative)}, ErrNegativePermits
	}
	s.queue(permits)
	defer s.queue(-permits)
	wait.Waits(ctx)
	call := s.closing.Begin(ctx)
	defer call.End()
	<-call.Done()
	if err := ctx.Err(); err != nil {
		return Fail(err), err
	}
	return Lease{bits: uint64(closed)}, ErrClosed
}

// queue adds permits to those that wait.
func (s *shut) queue(permits int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued.Add(permits)
}

// Reserve rejects: nothing says when there will be permits.
func (s *shut) Reserve(permits int) Lease { return s.TryAcquire(permits) }

func (s *shut) TryQuietly(int) (Lease, bool) { return Lease{}, false }

func (s *shut) Available() int { return 0 }

func (s *shut) Statistics() Statistics {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Statistics{Queued: s.queued.Int(), Rejected: s.rejected.Load()}
}

// IdleFor returns the time since the limiter was made, because nothing can be taken from it. It returns 0 and
// false while requests wait.
func (s *shut) IdleFor() (time.Duration, bool) {
	if s.Statistics().Queued > 0 {
		return 0, false
	}
	return time.Duration(max(s.clock.Elapsed(), 0)), true
}

func (s *shut) String() string { return s.reason.phrase() + ": " + s.Statistics().String() }

func (s *shut) itself() Limiter { return s }

func (s *shut) isClosed() bool { return s.closing.Cause() != nil }

func (s *shut) Close() error {
	s.closing.End(ErrClosed)
	return nil
}
