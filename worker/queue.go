package worker

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/list"
)

// queue holds the jobs that wait for a lease, in the limiter's order. When the order has changed, jobs that
// come later wait behind those that are already there. Pool.mu guards it.
type queue struct {
	sections [2]section
	now      int // the section that is served first; the other has jobs only while this one is not empty
}

// section holds jobs that came while the limiter's order was the same.
type section struct {
	order  core.QueueOrder
	byAge  list.List[*job]
	byFlow fair.Queue[*job] // used instead if order is FairShare
}

func (q *queue) len() int { return q.sections[0].len() + q.sections[1].len() }

// push appends a job. order is the limiter's.
func (q *queue) push(j *job, order core.QueueOrder) {
	s, later := &q.sections[q.now], &q.sections[1-q.now]
	if later.len() > 0 || s.len() > 0 && s.order != order {
		s = later
	}
	if s.len() == 0 {
		s.order = order
	}
	j.section = s
	if j.group != nil && j.caller == nil { // it is accepted
		j.group.queued.Push(&j.inGroup)
	}
	s.push(j)
}

// pop removes and returns the next job; nil if there is none.
func (q *queue) pop() *job {
	if q.sections[q.now].len() == 0 {
		q.now = 1 - q.now
	}
	j := q.sections[q.now].next()
	if j != nil {
		q.remove(j)
	}
	return j
}

func (q *queue) remove(j *job) {
	j.inGroup.Remove()
	j.byAge.Remove()
	if j.byFlow != nil {
		j.section.byFlow.Remove(j.byFlow) // no effect after Take
	}
	j.section, j.byFlow = nil, nil
}

func (s *section) len() int { return s.byAge.Len() + s.byFlow.Len() }

func (s *section) push(j *job) {
	if s.order != core.FairShare {
		s.byAge.Push(&j.byAge)
		return
	}
	j.byFlow = &fair.Item[*job]{N: max(j.permits, 1), Value: j}
	s.byFlow.Push(j.byFlow, fair.Flow(j.flow))
}

// next returns the job that is to be served next, and charges its flow; nil if there is none.
func (s *section) next() *job {
	if it := s.byFlow.Next(); it != nil {
		s.byFlow.Take(it)
		return it.Value
	}
	n := s.byAge.First()
	if s.order == core.NewestFirst {
		n = s.byAge.Last()
	}
	if n == nil {
		return nil
	}
	return n.Value
}
