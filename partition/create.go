package partition

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

var (
	errNoRoom  = errors.New("partition: no room")
	errBehind  = errors.New("partition: no room until OnEvict has been called")
	errUnequal = errors.New("partition: the key does not equal itself, as NaN does not, and cannot be looked up")
	errNil     = errors.New("New or Update returned a nil limiter")
)

// entries are the live entries by key: of the partitions, or of the groups.
type entries[R any, K comparable] struct {
	live sync.Map // K to *entry[R, K]; written under Keyed.mu
	max  int

	// Guarded by Keyed.mu.
	creating map[K]*creation[R, K] // the keys whose New is running
	table    table[R, K]
	places   int // taken by live entries and by those being created
}

// creation is an entry that one request creates and others wait for.
type creation[R any, K comparable] struct {
	done   chan struct{} // closed at its end
	placed bool          // it has a place; written by the request that creates, under Keyed.mu
	stale  bool          // Refresh was called, so the limiter has to be made again; guarded by Keyed.mu

	// Written before done is closed. If both are nil, New has panicked.
	entry *entry[R, K]
	err   error
}

// find returns the key's entry, or nil.
func (s *entries[R, K]) find(key K) *entry[R, K] {
	if v, ok := s.live.Load(key); ok {
		return v.(*entry[R, K])
	}
	return nil
}

// enter is entry for a key that had no live partition.
func (k *Keyed[R, K]) enter(ctx context.Context, key K, w way) (e *entry[R, K], full bool, err error) {
	if unequal(key, key) {
		return nil, false, errUnequal
	}
	k.sweepSome(looksPerNewKey)
	e, err = k.findOrCreate(ctx, &k.partitions, key, w)
	full = err == errNoRoom //nolint:errorlint // this very value
	if !full || k.o.Group == nil {
		return e, full, err
	}
	group := k.o.Group(key)
	if unequal(group, group) {
		return nil, true, errUnequal
	}
	e, err = k.findOrCreate(ctx, &k.groups, group, w)
	return e, true, err
}

func unequal[K comparable](a, b K) bool { return a != b }

// findOrCreate returns the key's entry, which is created if it is not live. A try waits for calls of OnEvict for a moment only.
func (k *Keyed[R, K]) findOrCreate(ctx context.Context, s *entries[R, K], key K, w way) (*entry[R, K], error) {
	for tries := 0; ; {
		e, c, mine, err := k.findOrReserve(s, key)
		switch {
		case e != nil || err != nil:
			return e, err
		case mine:
			e, err := k.create(s, key, c)
			if err != errBehind { //nolint:errorlint // this very value
				return e, err
			}
			long := patience
			if w.try != nil {
				long = moment
			}
			if tries == triesForRoom {
				return nil, errNoRoom
			}
			tries++
			if err := k.catchUp(ctx, long); err != nil {
				return nil, err
			}
		default:
			select {
			case <-c.done:
				if c.entry != nil || c.err != nil {
					return c.entry, c.err
				}
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

// findOrReserve returns the key's entry if it is live. Otherwise it returns its creation, and whether that is the
// caller's. A group has a place then, and a partition needs room if all places are taken.
func (k *Keyed[R, K]) findOrReserve(s *entries[R, K], key K) (e *entry[R, K], c *creation[R, K], mine bool, err error) {
	if e := s.find(key); e != nil {
		return e, nil, false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() {
		return nil, nil, false, core.ErrClosed
	}
	if e := s.find(key); e != nil {
		return e, nil, false, nil
	}
	if c := s.creating[key]; c != nil {
		return nil, c, false, nil
	}
	placed := s.places < s.max
	if !placed && s == &k.groups {
		return nil, nil, false, errNoRoom
	}
	if placed {
		s.places++
	}
	c = &creation[R, K]{done: make(chan struct{}), placed: placed}
	s.creating[key] = c
	return nil, c, true, nil
}

// create creates the entry of the key, if there is room.
func (k *Keyed[R, K]) create(s *entries[R, K], key K, c *creation[R, K]) (*entry[R, K], error) {
	ended := false
	defer func() {
		if !ended { // New or OnEvict panicked or ended the goroutine, or others that wait have to look for room themselves
			_, _ = k.finish(s, key, c, nil, nil)
		}
	}()
	for {
		var l core.Limiter
		var e *entry[R, K]
		var err error
		if !c.placed {
			err = k.makeRoom(c)
		}
		if err == errBehind { //nolint:errorlint // this very value
			return nil, err
		}
		if err == nil {
			l, err = k.limiter(key, nil)
		}
		if err == nil {
			e = k.newEntry(key, l, s == &k.groups)
		}
		if ended, err = k.finish(s, key, c, e, err); ended && err == nil {
			return e, nil
		}
		if e != nil {
			_ = closeLimiter(l)
		}
		if ended {
			return nil, err
		}
	}
}

// limiter returns the limiter for a key under the current limits. now is the limiter that the key has; nil if it has none.
func (k *Keyed[R, K]) limiter(key K, now core.Limiter) (l core.Limiter, err error) {
	if k.o.Update == nil || now == nil && k.o.New != nil {
		l, err = k.o.New(key)
	} else {
		l, err = k.o.Update(key, now)
	}
	if err == nil && backdoor.IsNil(l) {
		err = errNil
	}
	switch {
	case err == nil:
		return l, nil
	case k.o.Name == "":
		return nil, fmt.Errorf("partition: cannot create limiter for key: %w", err)
	}
	return nil, fmt.Errorf("partition: %q: cannot create limiter for key: %w", k.o.Name, err)
}

// finish ends a creation with an entry, with an error, or with neither. It returns false if the limits have changed
// meanwhile, so that the limiter has to be made again, and an error if the creation has failed.
func (k *Keyed[R, K]) finish(s *entries[R, K], key K, c *creation[R, K], e *entry[R, K], err error) (ended bool, _ error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() {
		return true, core.ErrClosed
	}
	if c.stale && (e != nil || err != nil) {
		c.stale = false
		return false, nil
	}
	c.entry, c.err = e, err
	close(c.done)
	delete(s.creating, key)
	if e == nil {
		if c.placed {
			s.places--
		}
		return true, err
	}
	s.live.Store(key, e)
	s.table.add(e)
	k.counts.Created++
	return true, nil
}
