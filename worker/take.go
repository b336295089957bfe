package worker

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// exceeds returns the error of a task of n permits that could never get its lease.
func (p *Pool) exceeds(n int) error {
	if n <= hold.Limit(p.limiter.Limiter) {
		return nil
	}
	h, err := p.limiter.Try(n)
	if err == nil { // the limit was raised just now
		p.limiter.Refund(h)
	}
	if errors.Is(err, core.ErrRejected) {
		return nil
	}
	return err
}

// try takes n permits if they are available now. If not, it reports false, and the limiter
// counts no rejection, since no task has been rejected. It returns an error only if waiting
// would not help.
func (p *Pool) try(n int) (h hold.Hold, ok bool, err error) {
	if h, ok = p.limiter.TryQuietly(n); ok || p.limiter.Plain(n) || p.limiter.Available() < max(n, 1) {
		return h, ok, nil
	}
	h, err = p.limiter.Try(n)
	if errors.Is(err, core.ErrRejected) {
		return h, false, nil
	}
	return h, err == nil, err
}

// The pauses between two requests for a task that the limiter keeps rejecting although permits
// are available, because other callers wait in its queue. If only other callers can end that,
// a task starts at most maxPause late, and in the long run the pool asks no more often than
// that.
const (
	minPause = time.Millisecond
	maxPause = 50 * time.Millisecond
)

// take takes n permits for a task that must not be rejected. If the limiter rejects the
// request, because it has no queue, or its queue is full or has evicted the request, take
// waits until that may have changed and asks again. One goroutine of a pool calls take at a
// time, so the tasks of the pool do not race for the permits that one of them gives back. The wait
// ends with ctx and with s.
func (p *Pool) take(ctx context.Context, s *wait.Source, n int) (hold.Hold, error) {
	for pause := time.Duration(0); ; pause = min(max(minPause, 2*pause), maxPause) {
		var end <-chan struct{}
		if pause > 0 {
			end = p.nextEnd() // before the request, so that take misses no end
		}
		h, err := p.limiter.Take(ctx, s, n)
		var rejection *core.RejectedError
		if err == nil || !errors.As(err, &rejection) || errors.Is(err, context.DeadlineExceeded) {
			return h, err
		}
		switch {
		case rejection.RetryAfter > 0:
			// The first time, RetryAfter alone decides. If the limiter rejects again, RetryAfter
			// was wrong or another caller was faster, so the pause grows.
			err = sleep(ctx, s, max(pause, rejection.RetryAfter), nil)
		case p.limiter.Available() < 1 && p.awaitOne(ctx, s):
			pause, err = 0, nil
		default:
			err = sleep(ctx, s, pause, end)
		}
		if err != nil {
			return hold.Hold{}, err
		}
	}
}

// awaitOne waits until a permit is available, and reports whether one was. It makes a
// zero-permit request, which does not count against the limiter's queue limit.
func (p *Pool) awaitOne(ctx context.Context, s *wait.Source) bool {
	h, err := p.limiter.Take(ctx, s, 0)
	if err != nil {
		return false
	}
	p.limiter.Release(h)
	return true
}

// nextEnd returns a channel that is closed when a task of the pool has ended and given back
// its permits.
func (p *Pool) nextEnd() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == nil {
		p.end = make(chan struct{})
	}
	return p.end
}

// sleep waits for d, or until end is closed. It returns an error if ctx or s ends first.
func sleep(ctx context.Context, s *wait.Source, d time.Duration, end <-chan struct{}) error {
	if d <= 0 {
		return s.Ended(ctx)
	}
	call := s.Begin(ctx)
	defer call.End()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-end:
		return nil
	case <-call.Done():
		return call.Ended()
	}
}
