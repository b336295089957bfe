package partition

import (
	"errors"
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Refresh applies the current limits to the limiters of these keys. It calls Options.Update for each key, or
// Options.New if there is no Update. Without keys, it does so for all partitions and groups. A key never stands for a group:
// if the limits of groups have changed, call Refresh without keys.
//
// When Refresh has returned, no later request is decided by limits from before the call. This holds even if New or
// Update was creating a limiter during the call: that limiter is discarded, and the function is called again. Requests
// that wait move to the new limiter and wait there, whatever its QueueLimit is. Leases of a limiter that was replaced
// can still be released and settled.
//
// Keys without a partition are ignored, because their next request creates one. If Update fails for a key, its limiter
// stays as it is, and Refresh continues with the other keys. It returns all such errors, joined. Refreshes run one at
// a time. After Close, Refresh returns [core.ErrClosed].
func (k *Keyed[R, K]) Refresh(keys ...K) error {
	_ = k.refreshing.Take(background)
	defer k.refreshing.Leave()
	if !k.expireCreations(keys) {
		return core.ErrClosed
	}
	var errs []error
	refresh := func(e *entry[R, K]) bool {
		if err := k.refresh(e); err != nil {
			errs = append(errs, err)
		}
		return true
	}
	if len(keys) == 0 {
		k.all(refresh)
	}
	for _, key := range keys {
		if e := k.partitions.find(key); e != nil {
			refresh(e)
		}
	}
	return errors.Join(errs...)
}

// expireCreations makes the partitions that are being created ask for their limits again: those of the keys, or all
// partitions and groups. It returns false after Close.
//
// It comes before Refresh looks for live partitions. A creation that ended before is found there, and one that starts
// later has the current limits.
func (k *Keyed[R, K]) expireCreations(keys []K) (open bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range keys {
		if c := k.partitions.creating[key]; c != nil {
			c.stale = true
		}
	}
	if len(keys) == 0 {
		for _, s := range k.both() {
			for _, c := range s.creating {
				c.stale = true
			}
		}
	}
	return k.open.Load()
}

// refresh brings a partition to the current limits.
func (k *Keyed[R, K]) refresh(e *entry[R, K]) error {
	l, err := k.limiter(e.of.key, e.limiter)
	switch {
	case err != nil && k.gone(e):
		return nil // it was dropped meanwhile; its next request creates it under the current limits
	case err != nil:
		return err
	case backdoor.Same(l, e.limiter):
		return nil
	}
	stays := inUse(l, e.limiter)
	if !k.replace(e, k.newEntry(e.of.key, l, e.group)) {
		if !stays {
			_ = closeLimiter(l)
		}
		return nil
	}
	if stays {
		e.endWaits()
		return nil
	}
	return e.close()
}

// replace puts next in the place of e, as ARCHITECTURE.md describes it. It returns false if e was dropped meanwhile.
func (k *Keyed[R, K]) replace(e, next *entry[R, K]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() || e.dropped() {
		return false
	}
	e.word.Or(droppedBit | replacedBit)
	s := k.entriesOf(e)
	s.live.Store(e.of.key, next)
	s.table.replace(e, next)
	return true
}

// inUse reports whether l calls the limiter that Close of old closes, which is old without its views.
func inUse(l, old core.Limiter) bool {
	l, old = unwrapped(l), unwrapped(old)
	if backdoor.Same(l, old) {
		return true
	}
	var parts []core.Limiter
	switch l := l.(type) {
	case interface{ Limiters() []core.Limiter }:
		parts = l.Limiters()
	case backdoor.Asker[core.Limiter]: // what For returns
		parts = l.Asks()
	}
	return slices.ContainsFunc(parts, func(part core.Limiter) bool { return inUse(part, old) })
}

func unwrapped(l core.Limiter) core.Limiter {
	for {
		view, ok := l.(interface{ Unwrap() core.Limiter })
		if !ok {
			return l
		}
		l = view.Unwrap()
	}
}
