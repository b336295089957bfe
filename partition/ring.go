package partition

import "sync/atomic"

// ring holds the live partitions in the order in which they are visited, and the hand that
// goes round. Entries are added behind the hand, and keep their order: so a partition's turn
// comes after at most as many visits as there were partitions when it was last visited, or
// added, however many are added and removed meanwhile.
//
// Walking it takes no lock, as the next of an entry that was taken out goes on leading to
// those behind it. add and remove are called under Keyed.mu.
type ring[K comparable] struct {
	root entry[K] // stands between the last and the first; no partition
	hand atomic.Pointer[entry[K]]
	n    atomic.Int64
}

// reset makes the ring an empty one.
func (r *ring[K]) reset() {
	r.root.next.Store(&r.root)
	r.root.prev = &r.root
	r.hand.Store(&r.root)
	r.n.Store(0)
}

// after returns the entry after e, going round; the root if there is none at all.
func (r *ring[K]) after(e *entry[K]) *entry[K] {
	n := e.next.Load()
	if n == &r.root {
		n = r.root.next.Load()
	}
	return n
}

// claim fills turn with the entries whose turn it is and returns how many there are: none
// twice, unless they go away meanwhile. Nobody else gets the same.
func (r *ring[K]) claim(turn []*entry[K]) int {
	turn = turn[:min(int64(len(turn)), r.n.Load())]
	for {
		hand := r.hand.Load()
		e, n := hand, 0
		if e == &r.root {
			e = r.after(e)
		}
		for n < len(turn) && e != &r.root {
			turn[n] = e
			n++
			e = r.after(e)
		}
		if n == 0 || r.hand.CompareAndSwap(hand, e) {
			return n
		}
	}
}

// add adds e behind the hand.
func (r *ring[K]) add(e *entry[K]) {
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
func (r *ring[K]) remove(e *entry[K]) {
	next := e.next.Load()
	e.prev.next.Store(next)
	next.prev = e.prev
	e.prev = nil
	r.hand.CompareAndSwap(e, next)
	r.n.Add(-1)
}
