package httplimit

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
)

// holds are the keys whose servers have asked to be left alone, and until when. Only requests that
// wait have timers.
type holds struct {
	mu    sync.Mutex // guards what follows; a leaf
	keys  map[string]*hold
	sweep int // at this many keys, those whose time is over are removed
}

type hold struct {
	until time.Time
	moved chan struct{} // closed when another answer takes its place
}

// Fewer keys are not worth a sweep.
const sweepFrom = 64

// hold holds the key back for d from now, in place of what held it back before.
func (h *holds) hold(key string, d time.Duration) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.keys[key]; old != nil {
		close(old.moved)
		delete(h.keys, key)
	}
	if d <= 0 {
		return
	}
	if len(h.keys) >= max(h.sweep, sweepFrom) {
		for k, old := range h.keys {
			if !old.until.After(now) {
				delete(h.keys, k)
			}
		}
		// Each new key pays for a look at two at most.
		h.sweep = 2 * len(h.keys)
	}
	if h.keys == nil {
		h.keys = make(map[string]*hold)
	}
	h.keys[key] = &hold{now.Add(d), make(chan struct{})}
}

// holds reports whether the key is held back.
func (h *holds) holds(key string) bool {
	_, left := h.left(key)
	return left > 0
}

// left returns for how long the key is held back, and what is closed if that changes.
func (h *holds) left(key string) (moved <-chan struct{}, left time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.keys[key]
	if old == nil {
		return nil, 0
	}
	if left = time.Until(old.until); left <= 0 {
		delete(h.keys, key)
		return nil, 0
	}
	return old.moved, left
}

// wait returns once the key is not held back.
func (h *holds) wait(ctx context.Context, key string, permits int) error {
	for {
		moved, left := h.left(key)
		if left <= 0 {
			return nil
		}
		if deadline, ok := ctx.Deadline(); ok && left > time.Until(deadline) {
			return &core.RejectedError{
				Limiter: key, Permits: max(permits, 0), Reason: "the server has asked to wait",
				RetryAfter: left, Cause: context.DeadlineExceeded,
			}
		}
		if err := sleep(ctx, left, moved); err != nil {
			return err
		}
	}
}
