package engine

// Heap is a binary heap: First returns a least element. It is not safe for concurrent use.
//
//	h := engine.NewHeap(func(a, b event) bool { return a.at < b.at })
//	h.Push(e)
//	for h.Len() > 0 {
//		earliest := h.Pop()
//	}
type Heap[T any] struct {
	items []T
	less  func(a, b T) bool
}

// NewHeap returns an empty heap in the order of less.
func NewHeap[T any](less func(a, b T) bool) *Heap[T] { return &Heap[T]{less: less} }

// Len returns the number of elements.
func (h *Heap[T]) Len() int { return len(h.items) }

// First returns the first element without removing it. It panics if there is none.
func (h *Heap[T]) First() T { return h.items[0] }

// Push adds an element.
func (h *Heap[T]) Push(v T) {
	h.items = append(h.items, v)
	for i := len(h.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

// Pop removes the first element and returns it. It panics if there is none.
func (h *Heap[T]) Pop() T {
	first, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	var zero T
	h.items[last] = zero // for the garbage collector
	h.items = h.items[:last]
	h.Fix()
	return first
}

// Fix restores the order after the first element, a pointer, has changed.
func (h *Heap[T]) Fix() {
	for i := 0; ; {
		least := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < len(h.items) && h.less(h.items[child], h.items[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.items[i], h.items[least] = h.items[least], h.items[i]
		i = least
	}
}
