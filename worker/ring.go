package worker

// ring is a queue that grows by doubling and lets go of a large buffer when it is empty.
type ring[T any] struct {
	buf  []T // its length is a power of two, or 0
	head int // the oldest
	n    int
}

// keptRing is how many elements an empty ring keeps room for.
const keptRing = 1024

func (r *ring[T]) push(v T) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = v
	r.n++
}

// front returns the oldest, of which there must be one.
func (r *ring[T]) front() *T { return &r.buf[r.head] }

// pop forgets the oldest.
func (r *ring[T]) pop() {
	var none T
	r.buf[r.head] = none
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	if r.n == 0 && len(r.buf) > keptRing {
		*r = ring[T]{}
	}
}

// keep forgets those that want does not want.
func (r *ring[T]) keep(want func(*T) bool) {
	var kept ring[T]
	for ; r.n > 0; r.pop() {
		if v := r.front(); want(v) {
			kept.push(*v)
		}
	}
	*r = kept
}

func (r *ring[T]) grow() {
	buf := make([]T, max(8, 2*len(r.buf)))
	n := copy(buf, r.buf[r.head:])
	copy(buf[n:], r.buf[:r.head])
	r.buf, r.head = buf, 0
}
