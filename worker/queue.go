package worker

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/fair"
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
	byAge  list
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
	if j.group != nil && j.caller == nil {
		j.group.queued.push(j)
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
	s := j.section
	j.section = nil
	if j.group != nil && j.caller == nil {
		j.group.queued.remove(j)
	}
	s.remove(j)
}

func (s *section) len() int { return s.byAge.n + s.byFlow.Len() }

func (s *section) push(j *job) {
	if s.order != core.FairShare {
		s.byAge.push(j)
		return
	}
	j.item = &fair.Item[*job]{N: max(j.permits, 1), Value: j}
	s.byFlow.Push(j.item, fair.Flow(j.flow))
}

// next returns the job that is to be served next, and charges its flow; nil if there is none.
func (s *section) next() *job {
	if it := s.byFlow.Next(); it != nil {
		s.byFlow.Take(it)
		return it.Value
	}
	if s.order == core.NewestFirst {
		return s.byAge.last
	}
	return s.byAge.first
}

func (s *section) remove(j *job) {
	if j.item == nil {
		s.byAge.remove(j)
		return
	}
	s.byFlow.Remove(j.item) // no effect after Take
	j.item = nil
}

// list holds jobs in order. A job is in at most one list of a kind. Pool.mu guards it.
type list struct {
	kind        listKind
	first, last *job
	n           int
}

type listKind uint8

const (
	inQueue listKind = iota
	inGroup          // the accepted jobs of one Group that are in the queue
	listKinds
)

type link struct{ prev, next *job }

func (l *list) push(j *job) {
	j.links[l.kind].prev = l.last
	if l.last == nil {
		l.first = j
	} else {
		l.last.links[l.kind].next = j
	}
	l.last = j
	l.n++
}

func (l *list) remove(j *job) {
	at := &j.links[l.kind]
	if at.prev == nil {
		l.first = at.next
	} else {
		at.prev.links[l.kind].next = at.next
	}
	if at.next == nil {
		l.last = at.prev
	} else {
		at.next.links[l.kind].prev = at.prev
	}
	*at = link{}
	l.n--
}
