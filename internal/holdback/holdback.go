// Package holdback holds a client's requests back for as long as a server wants to be left
// alone, and takes permits for them. There is no timer but those of waiting callers, and no
// goroutine.
package holdback

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Keys are the keys that are held back, each with the reason. The zero Keys
// holds none; it is safe for concurrent use. A nil *Keys holds none, ever.
type Keys[V any] struct {
	mu    sync.Mutex // guards what follows; a leaf
	keys  map[string]*held[V]
	sweep int // how many keys there are when those whose time is over are looked for
}

type held[V any] struct {
	until  time.Time
	length time.Duration
	why    V
	moved  chan struct{} // closed when the end is moved; nil: nobody has waited
}

const sweepFrom = 64

// Hold holds the key back for d from now, in place of what held it back before. 0 or less lets it
// go.
func (k *Keys[V]) Hold(key string, d time.Duration, why V) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.keys[key]; old != nil {
		if old.moved != nil {
			close(old.moved)
		}
		delete(k.keys, key)
	}
	if d <= 0 {
		return
	}
	if len(k.keys) >= max(k.sweep, sweepFrom) {
		for name, old := range k.keys {
			if !old.until.After(now) {
				delete(k.keys, name)
			}
		}
		k.sweep = 2 * len(k.keys) // each key that enters pays for a look at two at most
	}
	if k.keys == nil {
		k.keys = make(map[string]*held[V])
	}
	k.keys[key] = &held[V]{until: now.Add(d), length: d, why: why}
}

// Acquire waits until the key is not held back and l, unless it is nil, has granted the permits.
// While the key is held back, no permit is held. After a hold each caller goes on at a random
// instant in the first tenth of its length, so that they do not all come at once. If the hold
// outlasts the deadline of ctx, Acquire returns a *HeldError[V] at once; if ctx ends the wait, its
// error. The lease of another error is l's.
func (k *Keys[V]) Acquire(ctx context.Context, key string, l core.Limiter, permits int) (core.Lease, error) {
	for {
		if err := k.wait(ctx, key, permits); err != nil {
			return core.Lease{}, err
		}
		if l == nil {
			return core.Lease{}, nil
		}
		lease, err := l.Acquire(ctx, permits)
		if lease, err = backdoor.Checked(l, lease, err); err != nil {
			return lease, err
		}
		// While this waited for permits, the server may have answered another request.
		if h, _, _ := k.watch(key); h == nil {
			return lease, nil
		}
		backdoor.Refund(l, lease)
	}
}

// HeldError is the error of a request that would be held back beyond its deadline.
type HeldError[V any] struct {
	Rejected *core.RejectedError // RetryAfter is what is left of the hold
	Why      V
}

func (e *HeldError[V]) Error() string { return e.Rejected.Error() }
func (e *HeldError[V]) Unwrap() error { return e.Rejected }

// wait returns nil once the key is not held back.
func (k *Keys[V]) wait(ctx context.Context, key string, permits int) error {
	for {
		h, left, moved := k.watch(key)
		if h == nil {
			return nil
		}
		d, rest := Spread(ctx, left, h.length)
		if rest < 0 {
			return &HeldError[V]{&core.RejectedError{
				Limiter: key, Permits: max(permits, 0), Reason: "the server has asked to wait",
				RetryAfter: left, Cause: context.DeadlineExceeded,
			}, h.why}
		}
		if err := Sleep(ctx, d, moved); err != nil {
			return err
		}
	}
}

// Spread returns how long a caller sleeps that may go on when left is over: a random part of the first tenth
// of length more, so that not all go at once. rest is how much of the time until the deadline of ctx
// remains when left is over; half of it at least is for the answer.
func Spread(ctx context.Context, left, length time.Duration) (d, rest time.Duration) {
	spread, rest := length/10, time.Duration(math.MaxInt64)
	if deadline, ok := ctx.Deadline(); ok {
		rest = time.Until(deadline) - left
		spread = max(min(spread, rest/2), 0)
	}
	spread = min(spread, math.MaxInt64-left)                // the sum must not overflow
	jitter := time.Duration(rand.Int64N(int64(spread) + 1)) //nolint:gosec // it spreads callers, and is no secret
	return left + jitter, rest
}

// watch returns what holds the key back, for how long, and what is closed if that changes; nil if
// nothing does.
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

// Sleep returns after d, or when moved is closed, or with ctx's error.
func Sleep(ctx context.Context, d time.Duration, moved <-chan struct{}) error {
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
