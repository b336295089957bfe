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

// permits is the pool's limiter, and how it is asked. A pool gives back what each task
// holds once, by itself, so plain permits do where the limiter has them: they cost a swap
// each, and taking them calls nobody else's code.
type permits struct {
	limiter core.Limiter
	plain   direct.Permits // nil: the limiter has none
	rated   bool           // they come back with time, so that what runs says nothing
}

// ways lead to a concurrency limiter's plain permits.
var ways = direct.Core[core.Lease]()

func permitsOf(l core.Limiter) permits {
	s := permits{limiter: l}
	if plain, ok := ways.Permits(l); ok {
		s.plain = plain
	}
	if r, ok := l.(core.Replenisher); ok {
		s.rated = r.ReplenishmentPeriod() > 0
	}
	return s
}

// limit returns the limiter's limit; math.MaxInt if it is unknown.
func (s *permits) limit() int {
	if r, ok := s.limiter.(core.Reporter); ok {
		if limit := r.Statistics().Limit; limit > 0 {
			return limit
		}
	}
	return math.MaxInt
}

// tryPlain takes n plain permits, if there are such. It calls no code of others, so the
// pool's mutex may be held.
func (s *permits) tryPlain(n int) bool { return s.plain != nil && n > 0 && s.plain.TryTake(n) }

// givePlain gives back the plain permits of a task. It reports false if it has none. The
// pool's mutex may be held.
func (s *permits) givePlain(a *admitted) bool {
	if s.plain == nil || a.permits == 0 || a.lease.Acquired() {
		return false
	}
	s.plain.Give(a.permits)
	return true
}

// refund gives back what a task held that did not run.
func (s *permits) refund(a *admitted) {
	if !s.givePlain(a) && a.lease.Acquired() {
		limiter.Refund(s.limiter, a.lease)
	}
}

// The lease that these return beside a nil error stands for plain permits if it is not
// acquired.

// try takes n permits if they are there now, and else leaves no rejection behind, which
// whoever reads the limiter's statistics would take for a task turned away. The error is
// for what no wait would change.
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

// demand is try for a submission that does not wait: the refusal is its caller's, and is
// counted.
func (s *permits) demand(n int) (core.Lease, error) {
	if s.tryPlain(n) {
		return core.Lease{}, nil
	}
	l := s.limiter.TryAcquire(n)
	return l, l.Err()
}

// await acquires n permits by the limiter's own rules.
func (s *permits) await(ctx context.Context, n int) (core.Lease, error) {
	if s.plain != nil && n > 0 {
		return core.Lease{}, s.plain.Take(ctx, n)
	}
	l, err := s.limiter.Acquire(ctx, n)
	if err == nil && !l.Acquired() {
		return l, fmt.Errorf("%w: %w", errNoLease, l.Err())
	}
	return limiter.Checked(s.limiter, l, err)
}

// errNoLease is what a limiter did that breaks its contract.
var errNoLease = errors.New("worker: the limiter gave neither a lease nor an error")

// The pauses of a task that is kept out although permits are there: by a stranger's queue,
// or by others who are faster. A task may be so late, and is a burden no more often.
const (
	firstPause = time.Millisecond
	mostPause  = 50 * time.Millisecond
)

// persist acquires n permits for a task that the pool has accepted, or is bound to: a
// limiter that lets nobody wait, or evicts those that do, is asked again when it may grant.
func (s *permits) persist(ctx context.Context, n int) (core.Lease, error) {
	for pause := time.Duration(0); ; pause = min(max(firstPause, 2*pause), mostPause) {
		l, err := s.await(ctx, n)
		var refused *core.RejectedError
		if err == nil || !errors.As(err, &refused) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errNoLease) {
			return l, err
		}
		// The first time what the limiter says is believed; after that it was wrong, or
		// somebody else was faster.
		if err = sleep(ctx, max(pause, refused.RetryAfter)); err == nil && refused.RetryAfter <= 0 {
			err = s.awaitOne(ctx, max(firstPause, pause))
		}
		if err != nil {
			return core.Lease{}, err
		}
	}
}

// awaitOne waits until there is a permit: a probe waits outside the limiter's queue limit.
// If it may not, there is a pause.
func (s *permits) awaitOne(ctx context.Context, pause time.Duration) error {
	probe, err := s.await(ctx, 0)
	if err == nil {
		probe.Release()
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

// acquire is await, or persist, until the round ends the admission of tasks.
func (s *permits) acquire(ctx context.Context, r *round, n int, how patience) (core.Lease, error) {
	x := r.admission.Begin(ctx)
	if s.plain != nil && n > 0 && how == waits {
		err := x.Explain(s.plain.Take(x, n)) //nolint:contextcheck // x is ctx, and ends with the round too
		x.Finish(true)
		return core.Lease{}, err
	}
	defer x.Finish(false) // a user's limiter may keep it, or panic
	ask := s.await
	if how == persists {
		ask = s.persist
	}
	l, err := ask(x, n) //nolint:contextcheck // the same
	return l, x.Explain(err)
}
