package channel

import "github.com/sluice-go/sluice/core"

// queue holds the items that any receiver can take, oldest first, and what each holds.
type queue[T any] struct {
	items  ring[T]
	costs  ring[int]        // parallel to items if holds is costs
	leases ring[core.Lease] // parallel to items if holds is leases
	holds  holds
}

// holds says what kind of hold the items of a queue have. It is the same for all of them, so an item that
// holds one plain permit takes no more memory than in a native channel.
type holds uint8

const (
	nothing holds = iota
	ones          // one plain permit each
	costs         // any number of plain permits each
	leases
)

func (q *queue[T]) push(v T, h hold) {
	if q.holds == leases {
		q.leases.push(h.lease)
	}
	q.pushPlain(h.permits)
	q.items.push(v)
}

// pop takes the oldest; there must be one.
func (q *queue[T]) pop() (v T, h hold) {
	if q.holds == leases {
		h.lease = q.leases.pop()
	}
	h.permits = q.popPlain()
	return q.items.pop(), h
}

// pushPlain records the plain permits of the item being pushed.
func (q *queue[T]) pushPlain(permits int) {
	if q.holds == costs {
		q.costs.push(permits)
	}
}

// popPlain returns the plain permits of the item being popped.
func (q *queue[T]) popPlain() int {
	switch q.holds {
	case ones:
		return 1
	case costs:
		return q.costs.pop()
	}
	return 0
}

// popBack takes the newest; there must be one.
func (q *queue[T]) popBack() (v T, h hold) {
	switch q.holds {
	case ones:
		h.permits = 1
	case costs:
		h.permits = q.costs.popBack()
	case leases:
		h.lease = q.leases.popBack()
	}
	return q.items.popBack(), h
}

// ring is a queue in a slice whose length is a power of two. Unused slots are zero, so that they keep no
// garbage alive.
type ring[E any] struct {
	slots []E
	head  int // index of the oldest
	n     int
}

const (
	ringFirst = 8   // slots after the first push
	ringKept  = 512 // a ring of at most that many slots does not shrink, so that it need not grow again
)

func (r *ring[E]) push(e E) {
	if r.n == len(r.slots) {
		r.resize(max(2*r.n, ringFirst))
	}
	r.slots[(r.head+r.n)&(len(r.slots)-1)] = e
	r.n++
}

func (r *ring[E]) pop() (e E) {
	e = r.take(r.head)
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.n--
	r.shrink()
	return e
}

func (r *ring[E]) popBack() (e E) {
	e = r.take((r.head + r.n - 1) & (len(r.slots) - 1))
	r.n--
	r.shrink()
	return e
}

// take empties a slot.
func (r *ring[E]) take(i int) (e E) {
	var none E
	e, r.slots[i] = r.slots[i], none
	return e
}

func (r *ring[E]) shrink() {
	if len(r.slots) > ringKept && r.n <= len(r.slots)/8 {
		r.resize(len(r.slots) / 2)
	}
}

// resize moves all elements to n new slots. Between two calls there are at least as many pushes or pops as
// an eighth of the slots, so the amortized cost per element is constant.
func (r *ring[E]) resize(n int) {
	slots := make([]E, n)
	part := copy(slots, r.slots[r.head:min(r.head+r.n, len(r.slots))])
	copy(slots[part:], r.slots[:r.n-part]) // the part that had wrapped around
	r.slots, r.head = slots, 0
}
