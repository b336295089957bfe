// Package ring has a queue in a slice that grows and shrinks, for the queues of items, tasks and leases.
package ring

import (
	"math/bits"
	"unsafe"
)

// Ring is a queue in a slice whose length is a power of two. Unused slots are zero, so they keep no garbage
// alive. The zero Ring is empty. It is not safe for concurrent use.
type Ring[E any] struct {
	slots []E
	head  int // index of the oldest
	n     int
}

const (
	first = 8 // slots after the first Push, or fewer if the elements are large

	// A ring of at most so many slots and bytes does not shrink, so that it need not grow again. With fewer bytes an
	// item of 4 KiB takes ten times as long through a channel of 64 (BenchmarkLargeItems in bench).
	keptSlots = 1024
	keptBytes = 256 << 10
)

// Len returns the number of elements.
func (r *Ring[E]) Len() int { return r.n }

// At returns the i-th oldest element, from 0 to Len-1. It stays where it is until the next Push or Pop.
func (r *Ring[E]) At(i int) *E { return &r.slots[(r.head+i)&(len(r.slots)-1)] }

// Push appends an element.
func (r *Ring[E]) Push(e E) {
	if r.n == len(r.slots) {
		r.grow()
	}
	r.slots[(r.head+r.n)&(len(r.slots)-1)] = e
	r.n++
}

// PushFrom is Push of *e, for elements that are too large to be copied more often.
func (r *Ring[E]) PushFrom(e *E) {
	if r.n == len(r.slots) {
		r.grow()
	}
	r.slots[(r.head+r.n)&(len(r.slots)-1)] = *e
	r.n++
}

// PopTo is Pop into *e.
func (r *Ring[E]) PopTo(e *E) {
	var none E
	slot := &r.slots[r.head]
	*e = *slot
	*slot = none
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.n--
	r.shrink()
}

// kept returns the slots that are kept: a power of two.
func kept[E any]() int {
	var e E
	n := min(keptSlots, keptBytes/max(int(unsafe.Sizeof(e)), 1))
	return 1 << max(bits.Len(uint(n))-1, 0)
}

func (r *Ring[E]) grow() { r.resize(max(2*r.n, min(first, kept[E]()))) }

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
	if r.n <= len(r.slots)/8 && len(r.slots) > kept[E]() {
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
