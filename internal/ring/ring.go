// Package ring has a queue in a slice that grows and shrinks, for the queues of items, tasks and leases.
package ring

import (
	"math/bits"
	"reflect"
	"unsafe"
)

// Ring is a queue in a slice whose length is a power of two. Unused slots keep no garbage alive. The zero Ring is empty.
// It is not safe for concurrent use.
type Ring[E any] struct {
	slots []E
	head  int // index of the oldest
	n     int
	dirty bool // unused slots are not cleared
}

// ForLarge returns an empty Ring that does not clear unused slots if elements have no pointers, so that they keep nothing
// alive: clearing an item of 4 KiB takes as long as a copy (BenchmarkLargeItems in bench).
func ForLarge[E any]() Ring[E] { return Ring[E]{dirty: !hasPointers(reflect.TypeFor[E]())} }

// HasPointers reports whether elements may have pointers, so that unused copies of them have to be cleared.
func (r *Ring[E]) HasPointers() bool { return !r.dirty }

func hasPointers(t reflect.Type) bool {
	switch k := t.Kind(); k {
	case reflect.Array:
		return hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	default:
		return k > reflect.Complex128
	}
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
func (r *Ring[E]) Push(e E) { r.PushFrom(&e) }

// PushFrom is Push of *e, for elements that are too large to be copied more often.
func (r *Ring[E]) PushFrom(e *E) {
	if r.n == len(r.slots) {
		r.grow()
	}
	*r.At(r.n) = *e
	r.n++
}

// Pop removes and returns the oldest element; there must be one.
func (r *Ring[E]) Pop() (e E) {
	r.PopTo(&e)
	return e
}

// PopTo is Pop into *e.
func (r *Ring[E]) PopTo(e *E) {
	r.moveTo(e, 0)
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.n--
	r.shrink()
}

// PopBackTo removes the newest element, which there must be, and copies it into *e.
func (r *Ring[E]) PopBackTo(e *E) {
	r.moveTo(e, r.n-1)
	r.n--
	r.shrink()
}

// moveTo moves the i-th oldest element into *e.
func (r *Ring[E]) moveTo(e *E, i int) {
	slot := r.At(i)
	*e = *slot
	if !r.dirty {
		var none E
		*slot = none
	}
}

// kept returns the slots that are kept: a power of two.
func kept[E any]() int {
	var e E
	n := min(keptSlots, keptBytes/max(int(unsafe.Sizeof(e)), 1))
	return 1 << max(bits.Len(uint(n))-1, 0)
}

func (r *Ring[E]) grow() { r.resize(max(2*r.n, min(first, kept[E]()))) }

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
