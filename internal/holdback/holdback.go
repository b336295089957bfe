// Package holdback remembers which servers, or other keys, have asked to be left alone, and until
// when. There is no timer but those of waiting callers, and no goroutine.
package holdback

import (
	"context"
	"sync"
	"time"
)

// Keys are the keys that are held back, each with what it was that asked for it. The zero Keys
// holds none; it is safe for concurrent use.
type Keys[V any] struct {
	mu    sync.Mutex // guards what follows; a leaf
	keys  map[string]*hold[V]
	sweep int // how many keys there are when those whose time is over are looked for
}

type hold[V any] struct {
	until time.Time
	why   V
	moved chan struct{} // closed when the end is moved; nil: nobody has waited
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
		// So each key that enters pays for a look at two at most.
		k.sweep = 2 * len(k.keys)
	}
	if k.keys == nil {
		k.keys = make(map[string]*hold[V])
	}
	k.keys[key] = &hold[V]{until: now.Add(d), why: why}
}

// Held returns for how long the key is held back, and why; 0: it is not.
func (k *Keys[V]) Held(key string) (left time.Duration, why V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h, left := k.heldLocked(key); h != nil {
		return left, h.why
	}
	return 0, why
}

// heldLocked returns what holds the key back, and for how long; nil if nothing does.
func (k *Keys[V]) heldLocked(key string) (*hold[V], time.Duration) {
	h := k.keys[key]
	if h == nil {
		return nil, 0
	}
	left := time.Until(h.until)
	if left <= 0 {
		delete(k.keys, key)
		return nil, 0
	}
	return h, left
}

// Wait returns nil once the key is not held back, and ctx.Err() if ctx ends before. It first asks
// may, and again whenever the end has been moved, and returns its error at once if there is one.
func (k *Keys[V]) Wait(ctx context.Context, key string, may func(left time.Duration, why V) error) error {
	for {
		h, left, moved := k.watch(key)
		if h == nil {
			return nil
		}
		if err := may(left, h.why); err != nil {
			return err
		}
		if err := wait(ctx, left, moved); err != nil {
			return err
		}
	}
}

// watch returns what holds the key back, for how long, and what is closed if that changes.
func (k *Keys[V]) watch(key string) (h *hold[V], left time.Duration, moved <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h, left = k.heldLocked(key); h == nil {
		return nil, 0, nil
	}
	if h.moved == nil {
		h.moved = make(chan struct{})
	}
	return h, left, h.moved
}

// wait returns after d, or when moved is closed, or with ctx's error.
func wait(ctx context.Context, d time.Duration, moved <-chan struct{}) error {
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
