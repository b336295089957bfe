package hold

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/fair"
)

// Queue holds values in a limiter's order, which is given at each push. If the order has changed, values that come
// later are in the new order, behind those that are there. The zero Queue is empty. It is not safe for concurrent use.
type Queue[V any] struct {
	sections []*section[V] // the values that came while the order was the same; the first is served first
	n        int
}

// Place is the place of a Value in a Queue. It is in one queue at most; the zero Place is in none.
type Place[V any] struct {
	Value V

	section    *section[V]
	prev, next *Place[V]             // neighbors by age
	byFlow     *fair.Item[*Place[V]] // instead, if the order is FairShare
}

// Rank is where a value stands in a Queue.
type Rank struct {
	Mode core.QueueOrder
	Flow *core.Flow // if Mode is FairShare
}

// Rank returns the rank of a request of ctx among those of the limiter. It calls user code.
func (l *Limiter) Rank(ctx context.Context) (r Rank) {
	switch {
	case l.ordered != nil:
		r.Mode = l.ordered.QueueOrder()
	case l.Limiter != nil:
		r.Mode = Order(l.Limiter)
	}
	if r.Mode == core.FairShare {
		f, _ := core.FlowFromContext(ctx)
		r.Flow = &f
	}
	return r
}

// section is a part of a Queue in one order: a list by age, or a queue by flow. A list of its own takes half the memory
// of one of package list, which a pool with a long queue notices (BenchmarkPool of bench).
type section[V any] struct {
	queue       *Queue[V]
	mode        core.QueueOrder
	n           int
	first, last *Place[V]
	byFlow      fair.Queue[*Place[V]]
}

// Len returns the number of values.
func (q *Queue[V]) Len() int { return q.n }

// Push adds p, which is in no queue. n is what the flow is charged; 0 counts as 1.
func (q *Queue[V]) Push(p *Place[V], n int, o Rank) {
	q.n++
	s := q.lastSection(o.Mode)
	s.n++
	p.section = s
	if o.Mode == core.FairShare {
		p.byFlow = &fair.Item[*Place[V]]{N: max(n, 1), Value: p}
		s.byFlow.Push(p.byFlow, fair.Flow(*o.Flow))
		return
	}
	if p.prev = s.last; s.last == nil {
		s.first = p
	} else {
		s.last.next = p
	}
	s.last = p
}

func (q *Queue[V]) lastSection(mode core.QueueOrder) *section[V] {
	if last := len(q.sections) - 1; last >= 0 {
		s := q.sections[last]
		if s.n == 0 {
			s.mode = mode
		}
		if s.mode == mode {
			return s
		}
	}
	s := &section[V]{queue: q, mode: mode}
	q.sections = append(q.sections, s)
	return s
}

// Pop removes and returns the value that is to be served next; nil if there is none.
func (q *Queue[V]) Pop() (p *Place[V]) {
	if q.n == 0 {
		return nil
	}
	for q.sections[0].n == 0 {
		q.sections = q.sections[1:]
	}
	switch s := q.sections[0]; s.mode {
	case core.FairShare:
		it := s.byFlow.Next()
		s.byFlow.Take(it) // charges its flow
		p = it.Value
	case core.NewestFirst:
		p = s.last
	default:
		p = s.first
	}
	p.Remove()
	return p
}

// Remove takes p out of its queue; it does nothing if p is in none. No flow is charged.
func (p *Place[V]) Remove() {
	s := p.section
	if s == nil {
		return
	}
	p.section = nil
	s.n--
	s.queue.n--
	if s.mode == core.FairShare {
		s.byFlow.Remove(p.byFlow) // no effect after Take
		p.byFlow = nil
		return
	}
	if p.prev == nil {
		s.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		s.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
}

// Queued reports whether p is in a queue.
func (p *Place[V]) Queued() bool { return p.section != nil }
