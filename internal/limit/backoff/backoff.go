// Package backoff delays a client's requests for as long as a server asks, and takes permits for them. Its only
// timers are those of waiting callers, and it starts no goroutines.
package backoff

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Keys are keys that are on hold, each with a reason. The zero Keys has no key on hold; it is safe for concurrent
// use. A nil *Keys never has one.
type Keys[V any] struct {
	mu      sync.Mutex // guards the fields below; no other mutex is locked while it is held
	keys    map[string]*held[V]
	sweepAt int // the number of keys at which Hold looks for keys that have expired
}

type held[V any] struct {
	until  time.Time
	length time.Duration
	why    V
	moved  chan struct{} // closed when another Hold replaces this one; nil until a caller waits
}

const minSweepAt = 64

// Hold puts the key on hold for d from now, unless an earlier Hold lasts as long: the response that asks for less was
// under way when the server asked for more.
func (k *Keys[V]) Hold(key string, d time.Duration, why V) {
	if d <= 0 {
		return
	}
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.keys[key]; old != nil {
		if !now.Add(d).After(old.until) {
			return
		}
		if old.moved != nil {
			close(old.moved)
		}
		delete(k.keys, key)
	}
	if len(k.keys) >= max(k.sweepAt, minSweepAt) {
		for name, old := range k.keys {
			if !old.until.After(now) {
				delete(k.keys, name)
			}
		}
		k.sweepAt = 2 * len(k.keys) // so that each new key pays for looking at two keys at most
	}
	if k.keys == nil {
		k.keys = make(map[string]*held[V])
	}
	k.keys[key] = &held[V]{until: now.Add(d), length: d, why: why}
}

// Acquire waits until the key is not on hold and l, unless it is nil, has granted the permits. It holds no permits
// while the key is on hold. After a hold, each caller continues at a random instant in the first tenth of its
// length, so that the callers do not all continue together. If the hold outlasts the deadline of ctx, Acquire returns
// a *HeldError[V] immediately; if ctx ends the wait, it returns the error of ctx. The lease of any other error is l's.
func (k *Keys[V]) Acquire(ctx context.Context, key string, l core.Limiter, permits int) (core.Lease, error) {
	for {
		if err := k.wait(ctx, key, permits); err != nil {
			return core.Lease{}, err
		}
		if l == nil {
			return core.Lease{}, nil
		}
		lease, err := l.Acquire(ctx, permits)
		if lease, err = backdoor.Checked(lease, err); err != nil {
			return lease, err
		}
		// During the wait for permits, a response to another request may have put the key on hold.
		if h, _, _ := k.watch(key); h == nil {
			return lease, nil
		}
		lease.Refund()
	}
}

// HeldError is the error of a request whose hold would outlast its deadline.
type HeldError[V any] struct {
	Rejected *core.RejectedError // RetryAfter is the rest of the hold
	Why      V
}

func (e *HeldError[V]) Error() string { return e.Rejected.Error() }
func (e *HeldError[V]) Unwrap() error { return e.Rejected }

// wait returns nil once the key is not on hold.
func (k *Keys[V]) wait(ctx context.Context, key string, permits int) error {
	for {
		h, left, moved := k.watch(key)
		if h == nil {
			return nil
		}
		d, rest := spread(ctx, left, h.length)
		if rest < 0 {
			return &HeldError[V]{&core.RejectedError{
				Limiter: key, Permits: max(permits, 0), Reason: "the server has asked to wait",
				RetryAfter: left, Cause: context.DeadlineExceeded,
			}, h.why}
		}
		if err := sleep(ctx, d, moved); err != nil {
			return err
		}
	}
}

// spread returns how long a caller sleeps when left remains of a hold: a random part of the first tenth of length
// longer than left. rest is the time between the end of the hold and the deadline of ctx; at least half of it is kept
// for the request itself.
func spread(ctx context.Context, left, length time.Duration) (d, rest time.Duration) {
	extra, rest := length/10, time.Duration(math.MaxInt64)
	if deadline, ok := ctx.Deadline(); ok {
		rest = time.Until(deadline) - left
		extra = max(min(extra, rest/2), 0)
	}
	extra = min(extra, math.MaxInt64-left) // the sum must not overflow
	jitter := time.Duration(rand.Int64N(int64(extra) + 1))
	return left + jitter, rest
}

// watch returns the hold of the key, the rest of its time, and a channel that is closed when another Hold replaces it;
// nil if the key is not on hold.
func (k *Keys[V]) watch(key string) (h *held[V], left time.Duration, moved <-chan struct{}) {
	if k == nil {
		return nil, 0, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if h = k.keys[key]; h == nil {
		return nil, 0, nil
	}
	if left = time.Until(h.until); left <= 0 {
		delete(k.keys, key)
		return nil, 0, nil
	}
	if h.moved == nil {
		h.moved = make(chan struct{})
	}
	return h, left, h.moved
}

// sleep returns after d or when moved is closed, or it returns the error of ctx.
func sleep(ctx context.Context, d time.Duration, moved <-chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-moved:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
