package partition

// table holds the live partitions in slots, and a hand that goes round and points to the one that is
// looked at next. It grows and shrinks by pages, so no call copies a large table. All
// methods are called under Keyed.mu.
//
// The hand goes down. A hole is filled with the last entry, which the hand has passed in this
// round, and a new entry is added behind the hand, so each round visits every entry.
type table[R any, K comparable] struct {
	pages []*page[R, K]
	n     int // entries
	hand  int // the hand has passed the slots from here on
}

type page[R any, K comparable] [pageSize]*entry[R, K]

const pageSize = 512

func (t *table[R, K]) at(slot int) **entry[R, K] { return &t.pages[slot/pageSize][slot%pageSize] }

func (t *table[R, K]) add(e *entry[R, K]) {
	if t.n == len(t.pages)*pageSize {
		t.pages = append(t.pages, new(page[R, K]))
	}
	*t.at(t.n) = e
	e.slot = uint32(t.n)
	t.n++
}

func (t *table[R, K]) remove(e *entry[R, K]) {
	t.n--
	last := t.at(t.n)
	*t.at(int(e.slot)) = *last
	(*last).slot = e.slot
	*last = nil
	t.hand = min(t.hand, t.n)
	if spare := len(t.pages) - 1; t.n <= (spare-1)*pageSize { // a page is kept for the next add
		t.pages[spare] = nil
		t.pages = t.pages[:spare]
	}
}

// replace puts next in the place of e.
func (t *table[R, K]) replace(e, next *entry[R, K]) {
	next.slot = e.slot
	*t.at(int(e.slot)) = next
}

// next appends to buffer the entries that are looked at next: n of them, or all if there are fewer.
func (t *table[R, K]) next(buffer []*entry[R, K], n int) []*entry[R, K] {
	for range min(n, t.n) {
		if t.hand == 0 {
			t.hand = t.n
		}
		t.hand--
		buffer = append(buffer, *t.at(t.hand))
	}
	return buffer
}

// all yields all entries.
func (t *table[R, K]) all(yield func(*entry[R, K]) bool) {
	for slot := range t.n {
		if !yield(*t.at(slot)) {
			return
		}
	}
}
