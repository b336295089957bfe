// Package ring has a queue in a slice that grows and shrinks, for the queues of items, tasks and leases.
package ring

// Ring is a queue in a slice whose length is a power of two. Unused slots are zero, so they keep no garbage
// alive. The zero Ring is empty. It is not safe for concurrent use.
type Ring[E any] struct {
	slots []E
	head  int // index of the oldest
	n     int
}

const (
	first = 8    // slots after the first Push
	kept  = 1024 // a ring of at most that many slots does not shrink, so that it need not grow again
)

// Len returns the number of elements.
func (r *Ring[E]) Len() int { return r.n }

// At returns the i-th oldest element, from 0 to Len-1. It stays where it is until the next Push or Pop.
func (r *Ring[E]) At(i int) *E { return &r.slots[(r.head+i)&(len(r.slots)-1)] }

// Push appends an element.
func (r *Ring[E]) Push(e E) {
	if r.n == len(r.slots) {
		r.resize(max(2*r.n, first))
	}
	r.slots[(r.head+r.n)&(len(r.slots)-1)] = e
	r.n++
}

// Pop removes and returns the oldest element; there must be one.
func (r *Ring[E]) Pop() E {
	e := r.clear(r.head)
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.n--
	r.shrink()
	return e
}

// PopBack removes and returns the newest element; there must be one.
func (r *Ring[E]) PopBack() E {
	e := r.clear((r.head + r.n - 1) & (len(r.slots) - 1))
	r.n--
	r.shrink()
	return e
}

func (r *Ring[E]) clear(i int) (e E) {
	var none E
	e, r.slots[i] = r.slots[i], none
	return e
}

func (r *Ring[E]) shrink() {
	if len(r.slots) > kept && r.n <= len(r.slots)/8 {
		r.resize(len(r.slots) / 2)
	}
}

// resize moves all elements to n new slots. Between two calls there are at least as many pushes or pops as
// an eighth of the slots, so the amortized cost per element is constant.
func (r *Ring[E]) resize(n int) {
	slots := make([]E, n)
	part := copy(slots, r.slots[r.head:min(r.head+r.n, len(r.slots))])
	copy(slots[part:], r.slots[:r.n-part]) // the part that had wrapped around
	r.slots, r.head = slots, 0
}
