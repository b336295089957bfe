package core

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/clock"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/internal/wait"
)

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
	settings *settings // of its rejections
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
func (s *shut) Available() int               { return 0 }

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

func (s *shut) String() string  { return s.reason.phrase() + ": " + s.Statistics().String() }
func (s *shut) itself() Limiter { return s }
func (s *shut) isClosed() bool  { return s.closing.Cause() != nil }

func (s *shut) Close() error {
	s.closing.End(ErrClosed)
	return nil
}
