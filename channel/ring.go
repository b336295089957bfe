package channel

import "github.com/sluice-go/sluice/core"

// ring is a queue of items, each with its lease unless it is bare. It grows and shrinks
// by powers of two. Slots that are not in use are clear, so nothing is pinned.
type ring[T any] struct {
	items  []T
	leases []core.Lease // as long as items; nil if bare
	head   int          // index of the oldest
	n      int
	bare   bool // the items hold no leases
}

const (
	ringFirst = 8   // slots of a ring that is used
	ringKept  = 512 // a ring of no more slots does not shrink
)

func (r *ring[T]) push(v T, l core.Lease) {
	if r.n == len(r.items) {
		r.resize(max(2*r.n, ringFirst))
	}
	i := (r.head + r.n) & (len(r.items) - 1)
	r.items[i] = v
	if !r.bare {
		r.leases[i] = l
	}
	r.n++
}

// pop takes the oldest; there must be one.
func (r *ring[T]) pop() (v T, l core.Lease) {
	i := r.head & (len(r.items) - 1)
	r.head = (i + 1) & (len(r.items) - 1)
	return r.clear(i)
}

// popBack takes the newest; there must be one.
func (r *ring[T]) popBack() (v T, l core.Lease) {
	return r.clear((r.head + r.n - 1) & (len(r.items) - 1))
}

// clear empties a slot that is first or last.
func (r *ring[T]) clear(i int) (v T, l core.Lease) {
	var none T
	v, r.items[i] = r.items[i], none
	if !r.bare {
		l, r.leases[i] = r.leases[i], core.Lease{}
	}
	r.n--
	if len(r.items) > ringKept && r.n <= len(r.items)/8 {
		r.resize(len(r.items) / 2)
	}
	return v, l
}

// resize moves all to slots anew. A ring is resized after at least as many pushes or pops
// as an eighth of its slots, so an item's share of the moving is constant.
func (r *ring[T]) resize(slots int) {
	items := make([]T, slots)
	part := copy(items, r.items[r.head:min(r.head+r.n, len(r.items))])
	copy(items[part:], r.items[:r.n-part])
	if !r.bare {
		leases := make([]core.Lease, slots)
		copy(leases, r.leases[r.head:min(r.head+r.n, len(r.leases))])
		copy(leases[part:], r.leases[:r.n-part])
		r.leases = leases
	}
	r.items, r.head = items, 0
}
