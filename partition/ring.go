package partition

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
)

// ring holds the live partitions in the order in which they are visited, and the hand that
// goes round. Entries are added behind the hand, and keep their order: so a partition's turn
// comes after at most as many visits as there were partitions when it was last visited, or
// added, however many are added and removed meanwhile.
//
// Walking it takes no lock, as the next of an entry that was taken out goes on leading to
// those behind it. add and remove are called under Keyed.mu.
type ring[R any, K comparable] struct {
	root entry[R, K] // stands between the last and the first; no partition
	hand atomic.Pointer[entry[R, K]]
	n    atomic.Int64

	base time.Time
	lap  atomic.Int64 // what now returned in this lap of the hand, since base; unread: nothing yet
}

const unread = math.MinInt64

// reset makes the ring an empty one.
func (r *ring[R, K]) reset() {
	r.root.next.Store(&r.root)
	r.root.prev = &r.root
	r.hand.Store(&r.root)
	r.n.Store(0)
	r.lap.Store(unread)
}

// now returns the time at which it was first called since the hand last passed the root. To
// read the clock at each visit would cost more than all the rest of it.
func (r *ring[R, K]) now() int64 {
	t := r.lap.Load()
	if t == unread {
		t = int64(time.Since(r.base))
		r.lap.Store(t)
	}
	return t
}

// told is now, by an answer of a rate limiter's: most of them tell when they were given. unread
// if it does not tell. It is kept for the lap if the request has just tried, as one that waited
// may tell of an instant long ago; and not in a small ring, whose laps are short.
func (r *ring[R, K]) told(l core.Lease, tried bool) int64 {
	t := r.lap.Load()
	if t != unread {
		return t
	}
	at, ok := ways.Decided(l, r.base)
	if !ok {
		return unread
	}
	if tried && r.n.Load() > smallRing {
		r.lap.CompareAndSwap(unread, at)
	}
	return at
}

// smallRing is how large a ring is for which it costs more to keep an instant than to look for
// another.
const smallRing = 16

// at returns the instant, or what now returns if it is unread.
func (r *ring[R, K]) at(instant int64) int64 {
	if instant == unread {
		return r.now()
	}
	return instant
}

// after returns the entry after e, going round; the root if there is none at all.
func (r *ring[R, K]) after(e *entry[R, K]) *entry[R, K] {
	n := e.next.Load()
	if n == &r.root {
		n = r.root.next.Load()
	}
	return n
}

// claim returns the first of the entries whose turn it is, and how many there are from there
// on, at most n: none twice, unless some go away meanwhile. Nobody else gets the same.
func (r *ring[R, K]) claim(n int) (*entry[R, K], int) {
	n = min(n, int(r.n.Load()))
	for {
		hand := r.hand.Load()
		first := hand
		if first == &r.root {
			first = r.after(first)
		}
		e, claimed, lap := first, 0, false
		for claimed < n && e != &r.root {
			claimed++
			next := e.next.Load()
			if next == &r.root {
				next, lap = r.root.next.Load(), true
			}
			e = next
		}
		if claimed == 0 || e == hand || r.hand.CompareAndSwap(hand, e) {
			if lap && r.lap.Load() != unread {
				r.lap.Store(unread)
			}
			return first, claimed
		}
	}
}

// add adds e behind the hand.
func (r *ring[R, K]) add(e *entry[R, K]) {
	at := r.hand.Load()
	for at.prev == nil {
		at = at.next.Load()
	}
	before := at.prev
	e.prev = before
	e.next.Store(at)
	at.prev = e
	before.next.Store(e)
	r.n.Add(1)
}

// remove takes e out.
func (r *ring[R, K]) remove(e *entry[R, K]) {
	next := e.next.Load()
	e.prev.next.Store(next)
	next.prev = e.prev
	e.prev = nil
	r.hand.CompareAndSwap(e, next)
	r.n.Add(-1)
}
