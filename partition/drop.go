package partition

import (
	"errors"

	"github.com/sluice-go/sluice/core"
)

// The share of the sweeping that each call does. A partition that may be dropped is dropped
// at the second visit to it at the latest; see entry.rest. Of 4n+16 calls to n partitions,
// at most two for each partition are not followed by a visit's worth: so there are at least
// 2n+16 visits. A call that adds a partition makes up for the visits that this one takes,
// and for its own calls that are not followed by visits.
const (
	callsPerShare  = 3 // to one partition
	visitsPerShare = 3
	visitsWhenNew  = 4
	visitsForRoom  = 16
	triesForRoom   = 2 // a place that came free may be gone again
)

// visit visits those n partitions whose turn it is.
func (k *Keyed[R, K]) visit(n int) {
	var turn [visitsWhenNew]*entry[K]
	n = k.ring.claim(turn[:n])
	for _, e := range turn[:n] {
		if e.word.Load()&(dead|allPins) != 0 {
			continue
		}
		if e.rest.Load() {
			e.rest.Store(false)
			continue
		}
		e.rest.Store(true)
		if k.drop(e, k.idleTimeout(), nil) {
			k.evict(e)
		}
	}
}

// makeRoom drops a partition that is idle now, and sets place: it is the caller's. It
// reports false if there is none among those it looks at, and no place came free.
func (k *Keyed[R, K]) makeRoom(place *bool) bool {
	var turn [visitsForRoom]*entry[K]
	n := k.ring.claim(turn[:])
	for _, e := range turn[:n] {
		if k.drop(e, 0, place) {
			k.evict(e)
			return true
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.places < k.o.MaxPartitions || !k.open.Load()
}

// Sweep drops all partitions that may be dropped now, and returns how many those were.
func (k *Keyed[R, K]) Sweep() int {
	if !k.open.Load() {
		return 0
	}
	n := 0
	var p panics
	for e := k.ring.root.next.Load(); e != &k.ring.root && k.open.Load(); e = e.next.Load() {
		p.catch(func() {
			if k.drop(e, k.idleTimeout(), nil) {
				n++
				k.evict(e)
			}
		})
	}
	p.pass()
	return n
}

// drop drops the partition if its limiter has been idle for enough nanoseconds and no request
// is in it. Its place is free then, or place is set and it is the caller's; evict must follow.
func (k *Keyed[R, K]) drop(e *entry[K], enough int64, place *bool) bool {
	word, ok := e.idle(enough)
	if !ok {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// A request that came since idle read the word changed it, and may have taken permits.
	if !k.open.Load() || !e.word.CompareAndSwap(word, word|dead) {
		return false
	}
	k.table.remove(e)
	k.ring.remove(e)
	k.dropped++
	if place != nil {
		*place = true
	} else {
		k.places--
	}
	return true
}

// evict closes the limiter of a dropped partition, and tells OnEvict. It does the one even
// if the other panics.
func (k *Keyed[R, K]) evict(e *entry[K]) {
	if e.closes {
		defer func() {
			if k.o.OnEvict != nil {
				k.o.OnEvict(e.key, e.limiter)
			}
		}()
		_ = closeLimiter(e.limiter) // nobody is there to be told of its error
		return
	}
	if k.o.OnEvict != nil {
		k.o.OnEvict(e.key, e.limiter)
	}
}

// Close ends the Keyed: it closes the limiter of every partition that can be closed, and
// returns their errors, joined. Those that wait end with [core.ErrClosed], in Overflow too,
// which is not closed; their permits are refunded. Requests from then on are refused with
// it. Leases still release. OnEvict is not told. A second Close does nothing.
func (k *Keyed[R, K]) Close() error {
	first := k.detach()
	k.closing.End(core.ErrClosed)
	var errs []error
	var p panics
	for e := first; e != nil && e != &k.ring.root; e = e.next.Load() {
		p.catch(func() {
			if err := closeLimiter(e.limiter); err != nil {
				errs = append(errs, err)
			}
		})
	}
	p.pass()
	return errors.Join(errs...)
}

// detach closes the Keyed to all requests and returns the first of the partitions that were
// live, or nil.
func (k *Keyed[R, K]) detach() *entry[K] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() {
		return nil
	}
	k.open.Store(false)
	first := k.ring.root.next.Load()
	k.places -= k.Len() + len(k.making)
	for _, m := range k.making {
		close(m.done)
	}
	clear(k.making)
	k.table.reset()
	k.ring.reset()
	return first
}
