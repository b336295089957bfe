package fair

// The slots of a flow's places: a flow is in two heaps at most, as an idle flow is not waiting.
const (
	inOrder = iota
	inLoads
	slots
)

// heap is a binary heap of flows that know their places, so that any of them can be moved or
// removed.
type heap[V any] struct {
	flows  []*flow[V]
	slot   int
	before func(a, b *flow[V]) bool
}

func (h *heap[V]) len() int { return len(h.flows) }

func (h *heap[V]) first() *flow[V] { return h.flows[0] }

func (h *heap[V]) push(fl *flow[V]) {
	h.flows = append(h.flows, fl)
	h.up(fl, len(h.flows)-1)
}

func (h *heap[V]) remove(fl *flow[V]) {
	last := len(h.flows) - 1
	moved := h.flows[last]
	h.flows[last] = nil
	h.flows = h.flows[:last]
	if moved != fl {
		moved.at[h.slot] = fl.at[h.slot]
		h.fix(moved)
	}
}

// fix moves a flow to its place after it has changed.
func (h *heap[V]) fix(fl *flow[V]) {
	i := fl.at[h.slot]
	if i > 0 && h.before(fl, h.flows[(i-1)/2]) {
		h.up(fl, i)
		return
	}
	for {
		child := 2*i + 1
		if child >= len(h.flows) {
			break
		}
		if right := child + 1; right < len(h.flows) && h.before(h.flows[right], h.flows[child]) {
			child = right
		}
		if !h.before(h.flows[child], fl) {
			break
		}
		h.put(h.flows[child], i)
		i = child
	}
	h.put(fl, i)
}

// up puts a flow at i or above.
func (h *heap[V]) up(fl *flow[V], i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(fl, h.flows[parent]) {
			break
		}
		h.put(h.flows[parent], i)
		i = parent
	}
	h.put(fl, i)
}

func (h *heap[V]) put(fl *flow[V], i int) {
	h.flows[i] = fl
	fl.at[h.slot] = i
}
