// Package heap is a binary heap of values of one type, whose places may be known so that any of them can be moved or removed.
package heap

// Heap is a binary heap. The zero Heap with Before set is empty. It is not safe for concurrent use.
type Heap[T any] struct {
	Before func(a, b T) bool
	Placed func(v T, i int) // told the place of each value that moves, for Remove and Fix; nil if nobody asks for it

	items []T
}

// Len returns the number of values.
func (h *Heap[T]) Len() int { return len(h.items) }

// At returns the value at a place. Those behind it are at 2*i+1 and 2*i+2.
func (h *Heap[T]) At(i int) T { return h.items[i] }

// First returns the first value. It panics if there is none.
func (h *Heap[T]) First() T { return h.items[0] }

// Push adds a value.
func (h *Heap[T]) Push(v T) {
	h.items = append(h.items, v)
	h.up(v, len(h.items)-1)
}

// Pop removes the first value and returns it. It panics if there is none.
func (h *Heap[T]) Pop() T {
	v := h.items[0]
	h.Remove(0)
	return v
}

// Remove removes the value at a place.
func (h *Heap[T]) Remove(i int) {
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
func (h *Heap[T]) Fix(i int) {
	v := h.items[i]
	if i > 0 && h.Before(v, h.items[(i-1)/2]) {
		h.up(v, i)
		return
	}
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.Before(h.items[right], h.items[child]) {
			child = right
		}
		if !h.Before(h.items[child], v) {
			break
		}
		h.put(h.items[child], i)
		i = child
	}
	h.put(v, i)
}

// up puts a value at i or above.
func (h *Heap[T]) up(v T, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.Before(v, h.items[parent]) {
			break
		}
		h.put(h.items[parent], i)
		i = parent
	}
	h.put(v, i)
}

func (h *Heap[T]) put(v T, i int) {
	h.items[i] = v
	if h.Placed != nil {
		h.Placed(v, i)
	}
}
