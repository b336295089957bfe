// Package heap is a binary heap of values of one type, whose places may be known so that any of them can be moved or removed.
package heap

// Order is the order of a heap. It is a type rather than a function, because a function of a generic package would be
// allocated for each heap.
type Order[T any] interface {
	Before(a, b T) bool
	Placed(v T, i int) // told the place of each value that moves, for Remove and Fix
}

// Unplaced is the part of an Order that ignores places.
type Unplaced[T any] struct{}

// Placed does nothing.
func (Unplaced[T]) Placed(T, int) {}

// Heap is a binary heap. The zero Heap is empty. It is not safe for concurrent use.
type Heap[T any, O Order[T]] struct {
	order O
	items []T
}

// Use gives an empty heap the memory of its first values.
func (h *Heap[T, O]) Use(room []T) { h.items = room[:0] }

// Len returns the number of values.
func (h *Heap[T, O]) Len() int { return len(h.items) }

// At returns the value at a place. Those behind it are at 2*i+1 and 2*i+2.
func (h *Heap[T, O]) At(i int) T { return h.items[i] }

// First returns the first value. It panics if there is none.
func (h *Heap[T, O]) First() T { return h.items[0] }

// Push adds a value.
func (h *Heap[T, O]) Push(v T) {
	h.items = append(h.items, v)
	h.up(v, len(h.items)-1)
}

// Pop removes the first value and returns it. It panics if there is none.
func (h *Heap[T, O]) Pop() T {
	v := h.items[0]
	h.Remove(0)
	return v
}

// Remove removes the value at a place.
func (h *Heap[T, O]) Remove(i int) {
	last := len(h.items) - 1
	moved := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if i != last {
		h.items[i] = moved
		h.Fix(i)
	}
}

// Fix moves the value at a place after its order has changed.
func (h *Heap[T, O]) Fix(i int) {
	v := h.items[i]
	if i > 0 && h.order.Before(v, h.items[(i-1)/2]) {
		h.up(v, i)
		return
	}
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.order.Before(h.items[right], h.items[child]) {
			child = right
		}
		if !h.order.Before(h.items[child], v) {
			break
		}
		h.put(h.items[child], i)
		i = child
	}
	h.put(v, i)
}

// up puts a value at i or above.
func (h *Heap[T, O]) up(v T, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.order.Before(v, h.items[parent]) {
			break
		}
		h.put(h.items[parent], i)
		i = parent
	}
	h.put(v, i)
}

func (h *Heap[T, O]) put(v T, i int) {
	h.items[i] = v
	h.order.Placed(v, i)
}
