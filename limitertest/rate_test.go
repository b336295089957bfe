package limitertest_test

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
)

// refillsSoon has no rate: all permits but one are back a nanosecond after they were taken. The last one comes back
// a minute after the latest grant, so it is a minute until all are back.
type refillsSoon struct {
	mu    sync.Mutex
	taken int       // at the instant last
	last  time.Time // of the latest grant
}

var rateless = limitertest.Config{Limit: limit, Refill: time.Minute}

func newRateless() core.Limiter { return new(refillsSoon) }

func (r *refillsSoon) takenLocked(now time.Time) int {
	switch {
	case r.taken == 0 || !now.Before(r.last.Add(time.Minute)):
		return 0
	case now.After(r.last):
		return 1
	}
	return r.taken
}

func (r *refillsSoon) Available() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return limit - r.takenLocked(time.Now())
}

func (r *refillsSoon) TryAcquire(n int) core.Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	taken := r.takenLocked(now)
	switch {
	case n < 0:
		return core.Fail(core.ErrNegativePermits)
	case n > limit:
		return core.Fail(core.ErrPermitsExceedLimit)
	case max(n, 1) > limit-taken:
		retry := r.last.Add(1).Sub(now)
		if max(n, 1) > limit-1 {
			retry = r.last.Add(time.Minute).Sub(now)
		}
		return core.Reject(core.RetryAfter.With(retry))
	case n > 0:
		r.taken, r.last = taken+n, now
	}
	return core.Grant(n, nil)
}

func (r *refillsSoon) Acquire(ctx context.Context, n int) (core.Lease, error) {
	if err := ctx.Err(); err != nil && n >= 0 {
		return core.Fail(err), err
	}
	for {
		l := r.TryAcquire(n)
		if l.Acquired() || n != 0 {
			return l, l.Err()
		}
		select { // a request for no permits waits
		case <-time.After(1):
		case <-ctx.Done():
			return core.Fail(ctx.Err()), ctx.Err()
		}
	}
}
