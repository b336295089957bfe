package partition

// ring holds the live partitions in slots, and a hand that goes round and says whose turn it
// is to be looked at. It grows and shrinks by pages, so no call copies a large table. All
// methods are called under Keyed.mu.
//
// The hand goes down. A hole is filled with the last entry, which the hand has passed in this
// round, and a new entry is added behind the hand, so each round visits every entry.
type ring[R any, K comparable] struct {
	pages []*page[R, K]
	n     int // entries
	hand  int // the hand has passed the slots from here on
}

type page[R any, K comparable] [pageSize]*entry[R, K]

const pageSize = 512

func (r *ring[R, K]) at(slot int) **entry[R, K] { return &r.pages[slot/pageSize][slot%pageSize] }

func (r *ring[R, K]) add(e *entry[R, K]) {
	if r.n == len(r.pages)*pageSize {
		r.pages = append(r.pages, new(page[R, K]))
	}
	*r.at(r.n) = e
	e.slot = uint32(r.n)
	r.n++
}

func (r *ring[R, K]) remove(e *entry[R, K]) {
	r.n--
	last := r.at(r.n)
	*r.at(int(e.slot)) = *last
	(*last).slot = e.slot
	*last = nil
	r.hand = min(r.hand, r.n)
	if spare := len(r.pages) - 1; r.n <= (spare-1)*pageSize { // a page is kept for the next add
		r.pages[spare] = nil
		r.pages = r.pages[:spare]
	}
}

// next appends to buffer the entries whose turn it is: n of them, or all if there are fewer.
func (r *ring[R, K]) next(buffer []*entry[R, K], n int) []*entry[R, K] {
	for range min(n, r.n) {
		if r.hand == 0 {
			r.hand = r.n
		}
		r.hand--
		buffer = append(buffer, *r.at(r.hand))
	}
	return buffer
}

// all yields all entries.
func (r *ring[R, K]) all(yield func(*entry[R, K]) bool) {
	for slot := range r.n {
		if !yield(*r.at(slot)) {
			return
		}
	}
}
