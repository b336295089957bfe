package worker

// ring is a queue that doubles when it is full, and frees a large buffer when it is empty.
type ring[T any] struct {
	buf  []T // its length is a power of two, or 0
	head int // index of the oldest
	n    int
}

// keptRing is the length of the largest buffer that an empty ring keeps.
const keptRing = 1024

func (r *ring[T]) push(v T) {
	if r.n == len(r.buf) {
		r.grow()
	}
	*r.at(r.n) = v
	r.n++
}

// at returns the i-th oldest element.
func (r *ring[T]) at(i int) *T { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// pop removes the oldest element, which must exist.
func (r *ring[T]) pop() T {
	var zero T
	oldest := r.at(0)
	v := *oldest
	*oldest = zero
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	if r.n == 0 && len(r.buf) > keptRing {
		*r = ring[T]{}
	}
	return v
}

func (r *ring[T]) grow() {
	buf := make([]T, max(8, 2*len(r.buf)))
	n := copy(buf, r.buf[r.head:])
	copy(buf[n:], r.buf[:r.head])
	r.buf, r.head = buf, 0
}
