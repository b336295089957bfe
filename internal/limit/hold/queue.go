package hold

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/list"
)

// Queue holds values in a limiter's order, which is given at each push. If the order has changed, values that come
// later are in the new order, behind those that are there. The zero Queue is empty. It is not safe for concurrent use.
type Queue[V any] struct {
	sections []*section[V] // the values that came while the order was the same; the first is served first
	n        int
}

// Place is the place of a value in a Queue. It is in one queue at most; the zero Place is in none.
type Place[V any] struct {
	byAge  list.Node[V]
	byFlow *flowPlace[V] // instead, if the order is FairShare
}

type flowPlace[V any] struct {
	fair.Item[V]

	queue *fair.Queue[V]
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

// section is a part of a Queue in one order.
type section[V any] struct {
	mode   core.QueueOrder
	byAge  list.List[V]
	byFlow fair.Queue[V]
}

func (s *section[V]) empty() bool { return s.byAge.Len() == 0 && s.byFlow.Empty() }

// Len returns the number of values.
func (q *Queue[V]) Len() int { return q.n }

// Push adds v at the place p, which is in no queue. n is what the flow is charged; 0 counts as 1.
func (q *Queue[V]) Push(p *Place[V], v V, n int, r Rank) {
	q.n++
	s := q.lastSection(r.Mode)
	if r.Mode != core.FairShare {
		p.byAge.Value, p.byFlow = v, nil
		s.byAge.Push(&p.byAge)
		return
	}
	p.byFlow = &flowPlace[V]{fair.Item[V]{N: max(n, 1), Value: v}, &s.byFlow}
	s.byFlow.Push(&p.byFlow.Item, fair.Flow(*r.Flow))
}

func (q *Queue[V]) lastSection(mode core.QueueOrder) *section[V] {
	if last := len(q.sections) - 1; last >= 0 {
		s := q.sections[last]
		if s.empty() {
			s.mode = mode
		}
		if s.mode == mode {
			return s
		}
	}
	s := &section[V]{mode: mode}
	q.sections = append(q.sections, s)
	return s
}

// Pop removes and returns the value that is to be served next; there must be one.
func (q *Queue[V]) Pop() V {
	for q.sections[0].empty() {
		q.sections = q.sections[1:]
	}
	q.n--
	s := q.sections[0]
	if s.mode == core.FairShare {
		it := s.byFlow.Next()
		s.byFlow.Take(it) // charges its flow
		return it.Value
	}
	next := s.byAge.First()
	if s.mode == core.NewestFirst {
		next = s.byAge.Last()
	}
	next.Remove()
	return next.Value
}

// Remove takes p out of the queue; it does nothing if p is not there. No flow is charged.
func (q *Queue[V]) Remove(p *Place[V]) {
	if !p.Queued() {
		return
	}
	q.n--
	if p.byAge.Linked() {
		p.byAge.Remove()
	} else {
		p.byFlow.queue.Remove(&p.byFlow.Item)
	}
}

// Queued reports whether p is in a queue.
func (p *Place[V]) Queued() bool { return p.byAge.Linked() || p.byFlow != nil && p.byFlow.Waits() }
