package channel

import "github.com/sluice-go/sluice/core"

// ring is a queue of items and what they hold. It grows and shrinks by powers of two.
// Slots that are not in use are clear, so nothing is pinned.
type ring[T any] struct {
	items  []T
	counts []int        // as long as items if they hold counts
	leases []core.Lease // as long as items if they hold leases
	head   int          // index of the oldest
	n      int
	holds  holds
}

// holds is what the items of a ring hold.
type holds uint8

const (
	nothing holds = iota
	ones          // one plain permit each
	counts        // plain permits
	leases
)

const (
	// What is used at all gets room for a few items at once; an unused channel has none.
	ringFirst = 8
	// A ring that is no larger does not shrink: it is some kilobytes, and one that is filled
	// and emptied again and again would else spend its time growing.
	ringKept = 512
)

func (r *ring[T]) push(v T, h hold) {
	i := r.pushItem(v)
	switch r.holds {
	case counts:
		r.counts[i] = h.permits
	case leases:
		r.leases[i] = h.lease
	}
}

// pushItem is push where all items hold the same, and returns the slot. It spares the copies
// of a hold, which are slow: five words.
func (r *ring[T]) pushItem(v T) int {
	if r.n == len(r.items) {
		r.resize(max(2*r.n, ringFirst))
	}
	i := (r.head + r.n) & (len(r.items) - 1)
	r.items[i] = v
	r.n++
	return i
}

// pop takes the oldest; there must be one.
func (r *ring[T]) pop() (T, hold) {
	h := r.takeHold(r.head)
	return r.popItem(), h
}

// popItem is pop where all items hold the same.
func (r *ring[T]) popItem() T {
	i := r.head
	r.head = (i + 1) & (len(r.items) - 1)
	return r.takeItem(i)
}

// popBack takes the newest; there must be one.
func (r *ring[T]) popBack() (T, hold) {
	i := (r.head + r.n - 1) & (len(r.items) - 1)
	h := r.takeHold(i)
	return r.takeItem(i), h
}

// takeHold clears and returns what the item in a slot holds.
func (r *ring[T]) takeHold(i int) (h hold) {
	switch r.holds {
	case ones:
		h.permits = 1
	case counts:
		h.permits = r.counts[i]
	case leases:
		h.lease, r.leases[i] = r.leases[i], core.Lease{}
	}
	return h
}

// takeItem empties a slot that is first or last.
func (r *ring[T]) takeItem(i int) (v T) {
	var none T
	v, r.items[i] = r.items[i], none
	r.n--
	if len(r.items) > ringKept && r.n <= len(r.items)/8 {
		r.resize(len(r.items) / 2)
	}
	return v
}

// resize moves all to slots anew. A ring is resized after at least as many pushes or pops
// as an eighth of its slots, so an item's share of the moving is constant.
func (r *ring[T]) resize(slots int) {
	r.items = moved(r.items, r.head, r.n, slots)
	switch r.holds {
	case counts:
		r.counts = moved(r.counts, r.head, r.n, slots)
	case leases:
		r.leases = moved(r.leases, r.head, r.n, slots)
	}
	r.head = 0
}

// moved returns that many slots, which begin with the n from head on: those may run over
// the end.
func moved[E any](from []E, head, n, slots int) []E {
	to := make([]E, slots)
	part := copy(to, from[head:min(head+n, len(from))])
	copy(to[part:], from[:n-part])
	return to
}
