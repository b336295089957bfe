package worker

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/anylimiter"
	"github.com/sluice-go/sluice/internal/hold"
)

// check returns the error of a task of n permits that could never be admitted.
func (p *Pool) check(n int) error {
	if n <= 1 || n <= hold.Limit(p.limiter.Limiter) {
		return nil
	}
	l := p.limiter.TryAcquire(n)
	if l.Acquired() { // the limit was raised just now
		anylimiter.Refund(p.limiter.Limiter, l)
		return nil
	}
	if err := l.Err(); !errors.Is(err, core.ErrRejected) {
		return err
	}
	return nil
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
// time, so the tasks of the pool do not race for the permits that one of them gives back.
func (p *Pool) take(ctx context.Context, n int) (hold.Hold, error) {
	for pause := time.Duration(0); ; pause = min(max(minPause, 2*pause), maxPause) {
		var ended <-chan struct{}
		if pause > 0 {
			ended = p.nextEnd() // before the request, so that take misses no end
		}
		h, err := p.limiter.Take(ctx, nil, n)
		var rejection *core.RejectedError
		if err == nil || !errors.As(err, &rejection) || errors.Is(err, context.DeadlineExceeded) {
			return h, err
		}
		switch {
		case rejection.RetryAfter > 0:
			// The first time, RetryAfter alone decides. If the limiter rejects again, RetryAfter
			// was wrong or another caller was faster, so the pause grows.
			err = sleep(ctx, max(pause, rejection.RetryAfter), nil)
		case p.limiter.Available() < 1 && p.awaitOne(ctx):
			pause, err = 0, nil
		default:
			err = sleep(ctx, pause, ended)
		}
		if err != nil {
			return hold.Hold{}, err
		}
	}
}

// awaitOne waits until a permit is available, and reports whether one was. It makes a
// zero-permit request, which does not count against the limiter's queue limit.
func (p *Pool) awaitOne(ctx context.Context) bool {
	h, err := p.limiter.Take(ctx, nil, 0)
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
	if p.ended == nil {
		p.ended = make(chan struct{})
	}
	return p.ended
}

// sleep waits for d, or until ended is closed. It returns ctx.Err() if ctx is done first.
func sleep(ctx context.Context, d time.Duration, ended <-chan struct{}) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
