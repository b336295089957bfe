package limits

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// liveLimiter is a limiter that follows the terms of its limit, also if they change while it is made.
type liveLimiter struct {
	limiter

	local core.Limiter // decides while the Redis server is unreachable; nil if none does
	limit *Limit
	name  string     // given to [Limit.follow]
	mu    sync.Mutex // one update at a time
	terms atomic.Pointer[spec.Limit]
}

// limiter is what all limiters of core and redislimit are.
type limiter interface {
	core.Limiter
	core.Reporter
	core.Idler
	core.Refunder
	io.Closer
}

func (f *liveLimiter) TryAcquire(permits int) core.Lease {
	f.applyTerms()
	return f.limiter.TryAcquire(permits)
}

func (f *liveLimiter) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	f.applyTerms()
	return f.limiter.Acquire(ctx, permits)
}

// Settle corrects the cost of a lease, where the limiter can do that.
func (f *liveLimiter) Settle(l core.Lease, permits int) core.Lease {
	if s, ok := f.limiter.(core.Settler); ok {
		return s.Settle(l, permits)
	}
	if permits <= 0 {
		f.Refund(l)
	}
	return l
}

func (f *liveLimiter) applyTerms() {
	if f.terms.Load() != f.limit.terms.Load() {
		f.refresh()
	}
}

// refresh puts the present terms into the limiter. One on a Redis server asks the server then, and remembers nothing older.
func (f *liveLimiter) refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	terms := f.limit.terms.Load()
	// The kind is the same and the terms are valid, so the only error left is that the limiter is closed.
	_ = shared.Update(*terms, f.limit.id.policy, f.limiter)
	if f.local != nil {
		_ = terms.Update(f.local)
	}
	f.terms.Store(terms)
}

// reset resets the limiter. It reports false for a concurrency limiter, whose permits stay held.
func (f *liveLimiter) reset() (bool, error) {
	switch r := f.limiter.(type) {
	case interface{ TryReset() error }: // on a Redis server
		err := r.TryReset()
		return err == nil, err
	case core.Resetter:
		r.Reset()
		return true, nil
	}
	return false, nil
}
