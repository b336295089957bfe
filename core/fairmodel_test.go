package core_test

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/sluice-go/sluice/core"
)

// naiveShares is what FairShare adds to the model: for each priority with waiters, the virtual time
// and the flows' tags, in fractions.
type naiveShares map[int]*naivePriority

type naivePriority struct {
	virtual *big.Rat
	tags    map[string]*big.Rat
}

func perWeight(w *naiveWaiter) *big.Rat {
	return big.NewRat(int64(w.n), int64(max(w.flow.Weight, 1)))
}

func sameFlow(a, b core.Flow) bool { return a.Key == b.Key && a.Priority == b.Priority }

func (m *naive) waits(is func(w *naiveWaiter) bool) bool { return slices.ContainsFunc(m.queue, is) }

func (m *naive) arrive(w *naiveWaiter) {
	if m.order == core.FairShare {
		m.tag(w)
	}
	m.queue = append(m.queue, w)
}

// tag gives w's flow its tag, if it has not waited.
func (m *naive) tag(w *naiveWaiter) {
	if m.shares == nil {
		m.shares = naiveShares{}
	}
	p := m.shares[w.flow.Priority]
	if p == nil {
		p = &naivePriority{new(big.Rat), map[string]*big.Rat{}}
		m.shares[w.flow.Priority] = p
	}
	if m.waits(func(o *naiveWaiter) bool { return sameFlow(o.flow, w.flow) }) {
		return
	}
	if tag := p.tags[w.flow.Key]; tag == nil || tag.Cmp(p.virtual) < 0 {
		p.tags[w.flow.Key] = p.virtual
	}
}

// leave takes w out of the queue. A priority without waiters is forgotten.
func (m *naive) leave(w *naiveWaiter) {
	m.queue = slices.DeleteFunc(m.queue, func(o *naiveWaiter) bool { return o == w })
	if !m.waits(func(o *naiveWaiter) bool { return o.flow.Priority == w.flow.Priority }) {
		delete(m.shares, w.flow.Priority)
	}
}

// fairest returns the waiter that is next.
func (m *naive) fairest() *naiveWaiter {
	return slices.MinFunc(m.queue, func(a, b *naiveWaiter) int { // the first of those that are equal
		if a.flow.Priority != b.flow.Priority {
			return cmp.Compare(b.flow.Priority, a.flow.Priority)
		}
		tags := m.shares[a.flow.Priority].tags
		return tags[a.flow.Key].Cmp(tags[b.flow.Key])
	})
}

// charge charges w's flow for it.
func (m *naive) charge(w *naiveWaiter) {
	if m.order == core.FairShare {
		p := m.shares[w.flow.Priority]
		p.virtual = p.tags[w.flow.Key]
		p.tags[w.flow.Key] = new(big.Rat).Add(p.virtual, perWeight(w))
	}
}

// reorder puts another order in force.
func (m *naive) reorder(order core.QueueOrder) {
	if order == m.order {
		return
	}
	m.shares = nil
	if m.order = order; order == core.FairShare {
		queue := m.queue
		m.queue = nil
		for _, w := range queue {
			m.arrive(w)
		}
	}
}

// evictions returns who has to leave, to make room for w; full if w is rejected.
func (m *naive) evictions(w *naiveWaiter) (evicted []*naiveWaiter, full bool) {
	left := slices.Clone(m.queue)
	load := func(f core.Flow) *big.Rat {
		sum := new(big.Rat)
		for _, o := range left {
			if sameFlow(o.flow, f) {
				sum.Add(sum, perWeight(o))
			}
		}
		return sum
	}
	for room := m.queueLimit - m.waiting(); room < w.n; {
		victim := left[0]
		for _, o := range left { // at a tie the newer
			if p := cmp.Compare(o.flow.Priority, victim.flow.Priority); p < 0 || p == 0 && load(o.flow).Cmp(load(victim.flow)) >= 0 {
				victim = o
			}
		}
		own := new(big.Rat).Add(load(w.flow), perWeight(w))
		switch {
		case victim.flow.Priority > w.flow.Priority:
			return nil, true
		case victim.flow.Priority == w.flow.Priority && own.Cmp(load(victim.flow)) >= 0:
			return nil, true
		}
		left = slices.DeleteFunc(left, func(o *naiveWaiter) bool { return o == victim })
		evicted = append(evicted, victim)
		room += victim.n
	}
	return evicted, false
}

// ahead returns the permits that the waiters of a flow wait for.
func (m *naive) ahead(n int, flow *core.Flow) (permits int) {
	for _, o := range m.queue {
		if flow != nil && n > 0 && sameFlow(o.flow, *flow) {
			permits += o.n
		}
	}
	return permits
}

// rejectIn is reject of a request of a flow.
func (m *naive) rejectIn(w *naiveWaiter, reason string) *answer {
	a := m.reject(w.n, reason)
	if a.retry > 0 && m.order == core.FairShare {
		a.retry = max(m.due(w.n, &w.flow)-m.now, 1)
	}
	return a
}

// come takes n permits as they come back, and returns when the last has come.
func (m *naive) come(n int) int64 {
	for {
		k := min(n, m.available())
		m.ids++
		m.acct.take(m.now, m.ids, k)
		if n -= k; n == 0 {
			return m.now
		}
		m.now, _ = m.acct.next()
		m.acct.pass(m.now)
	}
}
