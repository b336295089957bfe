package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/limiter"
)

// permits is the pool's limiter and the ways to ask it.
//
// Plain permits are permits without a lease: they must be given back exactly once, which the
// pool does. A *core.ConcurrencyLimiter has them. To take or give them is one atomic swap and
// calls no user code, so Pool.mu may be held.
type permits struct {
	limiter core.Limiter
	plain   direct.Permits // nil: the limiter has none
}

// ways gives access to a concurrency limiter's plain permits.
var ways = direct.Core[core.Lease]()

func permitsOf(l core.Limiter) permits {
	s := permits{limiter: l}
	if plain, ok := ways.Permits(l); ok {
		s.plain = plain
	}
	return s
}

// hasPlain reports whether a task of n permits holds plain permits rather than a lease.
func (s *permits) hasPlain(n int) bool { return s.plain != nil && n > 0 }

// tryPlain takes n plain permits if they are available.
func (s *permits) tryPlain(n int) bool { return s.hasPlain(n) && s.plain.TryTake(n) }

// limit returns the limiter's limit; math.MaxInt if it is unknown.
func (s *permits) limit() int {
	if r, ok := s.limiter.(core.Reporter); ok {
		if limit := r.Statistics().Limit; limit > 0 {
			return limit
		}
	}
	return math.MaxInt
}

// check returns the error of a task of n permits that could never be admitted.
func (s *permits) check(n int) error {
	if n <= 1 || n <= s.limit() {
		return nil
	}
	l := s.limiter.TryAcquire(n)
	if l.Acquired() { // the limit was raised just now
		limiter.Refund(s.limiter, l)
		return nil
	}
	if err := l.Err(); !errors.Is(err, core.ErrRejected) {
		return err
	}
	return nil
}

// refund gives back the permits of a task that did not run.
func (s *permits) refund(a *admitted) {
	if a.plain {
		s.plain.Give(a.permits)
	} else if a.lease.Acquired() {
		limiter.Refund(s.limiter, a.lease)
	}
}

// If one of the following methods succeeds but returns a lease that is not acquired, it has
// taken plain permits.

// try takes n permits if they are available now. If not, it reports false, and the limiter
// counts no rejection, since no task has been rejected. It returns an error only if waiting
// would not help.
func (s *permits) try(n int) (l core.Lease, ok bool, err error) {
	if s.tryPlain(n) {
		return l, true, nil
	}
	if l, ok = core.TryQuietly(s.limiter, n); ok {
		return l, true, nil
	}
	if s.limiter.Available() < max(n, 1) {
		return l, false, nil
	}
	if l = s.limiter.TryAcquire(n); l.Acquired() {
		return l, true, nil
	}
	if err = l.Err(); errors.Is(err, core.ErrRejected) {
		err = nil
	}
	return l, false, err
}

// ask acquires n permits, waiting and being rejected by the limiter's own rules.
func (s *permits) ask(ctx context.Context, n int) (core.Lease, error) {
	if s.hasPlain(n) {
		return core.Lease{}, s.plain.Take(ctx, n)
	}
	if l, ok := core.TryQuietly(s.limiter, n); ok {
		return l, nil
	}
	l, err := s.limiter.Acquire(ctx, n)
	if err == nil && !l.Acquired() {
		return l, fmt.Errorf("%w: %w", errNoLease, l.Err())
	}
	return limiter.Checked(s.limiter, l, err)
}

// errNoLease is the error for a limiter that breaks its contract.
var errNoLease = errors.New("worker: the limiter returned neither a lease nor an error")

// The pauses between two requests for a task that the limiter keeps rejecting although permits
// are available, because other callers wait in its queue or are faster. A task starts at most
// maxPause late, and in the long run asks no more often than that.
const (
	minPause = time.Millisecond
	maxPause = 50 * time.Millisecond
)

// persist acquires n permits for a task that must not be rejected. If the limiter rejects the
// request, because its queue is full or has evicted it, persist waits and asks again.
func (s *permits) persist(ctx context.Context, n int) (core.Lease, error) {
	for pause := time.Duration(0); ; pause = min(max(minPause, 2*pause), maxPause) {
		l, err := s.ask(ctx, n)
		var rejected *core.RejectedError
		if err == nil || !errors.As(err, &rejected) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errNoLease) {
			return l, err
		}
		// The first time, RetryAfter alone decides. If the limiter rejects again, RetryAfter was
		// wrong or another caller was faster, so the pause grows.
		if err = sleep(ctx, max(pause, rejected.RetryAfter)); err == nil && rejected.RetryAfter <= 0 {
			err = s.awaitOne(ctx, max(minPause, pause))
		}
		if err != nil {
			return core.Lease{}, err
		}
	}
}

// awaitOne waits until a permit is available. It makes a zero-permit request, which does not
// count against the limiter's queue limit. If that is rejected, awaitOne sleeps for pause.
func (s *permits) awaitOne(ctx context.Context, pause time.Duration) error {
	l, err := s.ask(ctx, 0)
	if err == nil {
		l.Release()
	} else if errors.Is(err, core.ErrRejected) {
		err = sleep(ctx, pause)
	}
	return err
}

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
