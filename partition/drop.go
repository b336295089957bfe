package partition

import (
	"errors"
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
)

// The share of the sweeping that each call does. A partition that may be dropped is dropped
// at the second visit to it at the latest; see entry.due. Of 4n+16 calls to n partitions, at
// most two for each partition and two for each tally are not followed by a visit's worth: so
// there are at least 2n visits. A call that adds a partition makes up for the visits that
// this one takes, and for its own calls that are not followed by visits.
//
// Calls are counted where they write anyway: in the entry's word, or by the rate limiters of
// core themselves; see kind and tally.
const (
	callsPerShare  = direct.Turns // to one partition
	visitsPerShare = 3
	visitsWhenNew  = 4
	visitsForRoom  = 16
	triesForRoom   = 2 // a place that came free may be gone again
)

// visit visits those n partitions whose turn it is, at now, which may be unread. own, which
// may be nil, is pinned by the caller, who may find it dead afterwards; a panic takes the pin
// away.
func (k *Keyed[R, K]) visit(n int, own *entry[R, K], now int64) {
	e, n := k.ring.claim(n)
	for ; n > 0; n-- {
		pins := uint64(0)
		if e == own {
			pins = 1
		}
		if e.due(pins, now, &k.ring, k.timeout()) {
			k.expire(e, pins, own, now)
		}
		e = k.ring.after(e)
	}
}

// expire drops the partition if its limiter has been idle for IdleTimeout.
func (k *Keyed[R, K]) expire(e *entry[R, K], pins uint64, own *entry[R, K], now int64) {
	returned := false
	defer func() {
		if !returned && own != nil { // OnEvict panicked, or a limiter
			own.leave()
		}
	}()
	if e.kind != foreign {
		now = k.ring.at(now)
	}
	word, d, idle := e.idleInPassing(pins)
	switch {
	case !idle:
		d = 0
	case d >= k.o.IdleTimeout:
		if k.drop(e, word, pins, k.o.IdleTimeout, nil) {
			k.evict(e)
		}
		returned = true
		return
	}
	if e.kind != foreign {
		e.notBefore.Store(now + int64(k.timeout()-d))
	}
	returned = true
}

// timeout is IdleTimeout, but not so long that adding it to an instant overflows.
func (k *Keyed[R, K]) timeout() time.Duration { return min(k.o.IdleTimeout, math.MaxInt64/4) }

// makeRoom drops a partition that is idle now, and sets place: it is the caller's. It
// reports false if there is none among those it looks at, and no place came free.
func (k *Keyed[R, K]) makeRoom(place *bool) bool {
	e, n := k.ring.claim(visitsForRoom)
	for ; n > 0; n-- {
		if word, _, idle := e.idleInPassing(0); idle && k.drop(e, word, 0, 0, place) {
			k.evict(e)
			return true
		}
		e = k.ring.after(e)
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
			if word, d, idle := e.idle(0); idle && d >= k.o.IdleTimeout && k.drop(e, word, 0, k.o.IdleTimeout, nil) {
				n++
				k.evict(e)
			}
		})
	}
	p.pass()
	return n
}

// drop drops the partition if nothing happened in it since its word was read, or it still is
// idle for so long: see entry.retire. Its place is free then, or place is set and it is the
// caller's; evict must follow.
func (k *Keyed[R, K]) drop(e *entry[R, K], word, pins uint64, idle time.Duration, place *bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() || !e.retire(word, pins, idle) {
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
func (k *Keyed[R, K]) evict(e *entry[R, K]) {
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
func (k *Keyed[R, K]) detach() *entry[R, K] {
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
