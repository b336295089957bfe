package fair

import "testing"

// Check fails the test if what the queue keeps is not consistent.
func Check[V any](t *testing.T, q *Queue[V]) {
	t.Helper()
	for i, l := range q.levels {
		ordered(t, &l.waiting)
		ordered(t, &l.loads)
		ordered(t, &l.idle)
		switch {
		case i > 0 && q.levels[i-1].priority <= l.priority:
			t.Fatalf("priority %d after %d", l.priority, q.levels[i-1].priority)
		case l.waiting.len() == 0:
			t.Fatal("a level without waiters")
		case l.waiting.len() < l.loads.len() || len(l.flows) != l.waiting.len()+l.idle.len():
			t.Fatalf("%d flows, %d wait, %d loads, %d idle", len(l.flows), l.waiting.len(), l.loads.len(), l.idle.len())
		}
		for _, fl := range l.flows {
			permits, load := 0, tag{}
			var last, newest *Item[V]
			for it := fl.first; it != nil; it = it.next {
				permits += it.N
				if !it.Stays {
					load = load.plus(it.cost)
					if it.older != newest || newest != nil && newest.newer != it {
						t.Fatal("a broken list of requests that may be evicted")
					}
					newest = it
				}
				if it.flow != fl || it.prev != last {
					t.Fatal("a broken list")
				}
				last = it
			}
			switch {
			case last != fl.last || permits != q.Waiting(Flow{Key: fl.key, Priority: l.priority}) || load != fl.load || fl.newest != newest:
				t.Fatalf("flow %q: %v permits and load %v, of %d and %v", fl.key, fl.permits, fl.load, permits, load)
			case fl.start.less(l.virtual) || last == nil && fl.start == l.virtual:
				t.Fatalf("flow %q at %v of %v", fl.key, fl.start, l.virtual)
			}
		}
	}
}

func ordered[V any](t *testing.T, h *heap[V]) {
	t.Helper()
	for i, fl := range h.flows {
		if fl.at[h.slot] != i || i > 0 && h.before(fl, h.flows[(i-1)/2]) {
			t.Fatal("a heap out of order")
		}
	}
}

// Remembered returns how many flows the queue knows.
func (q *Queue[V]) Remembered() (n int) {
	for _, l := range q.levels {
		n += len(l.flows)
	}
	return n
}
