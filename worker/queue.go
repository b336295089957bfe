package worker

import (
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/ring"
	"github.com/sluice-go/sluice/internal/wait"
)

// job is a task that waits for its lease or has it. Jobs are copied: with objects that are used again, linked in a list,
// a task of BenchmarkPool of bench takes a third longer. Four words are what the compiler keeps in registers.
type job struct {
	task    Task
	permits int
	owner   *owner // what the task was given to; nil: Submit
	turn    *turn  // nil if there is nothing in it
}

// turn is what the wait of some jobs needs: those of calls that wait, and those that are served by flow.
type turn struct {
	rank   hold.Rank
	caller *wait.Waiter[turn] // the call that waits; nil once the task is accepted
	queued int                // 1 while the caller's job is in the queue
	asks   bool               // the caller has to ask for the lease
}

// turnOf returns the turn of a job without a caller; nil if nothing in it is needed.
func turnOf(rank hold.Rank) *turn {
	if rank.Flow == nil {
		return nil
	}
	return &turn{rank: rank}
}

// queue has jobs in the limiter's order, which is given at each push. If the order has changed, later jobs are in the new
// order, behind those that are there. A job that was taken back is skipped when its turn comes, or is removed once there
// are more such jobs than others. The zero queue is empty.
type queue struct {
	sections []section // the jobs that came while the order was the same; the first section is served first
	n        int       // jobs, without those that were taken back
	back     int       // jobs that were taken back
}

// section is a part of a queue in one order.
type section struct {
	mode   core.QueueOrder
	byAge  ring.Ring[job]
	byFlow fair.Queue[job] // instead, if the order is FairShare
}

// queued returns what counts the job, among others, while it is in the queue; nil if it cannot be taken back.
func (j *job) queued() *int {
	switch {
	case j.turn != nil && j.turn.caller != nil:
		return &j.turn.queued
	case j.owner != nil:
		return &j.owner.queued
	}
	return nil
}

// isBack reports whether a job in the queue was taken back.
func (j *job) isBack() bool {
	n := j.queued()
	return n != nil && *n == 0
}

// push adds a job. The flow of a task of 0 permits is charged for one.
func (q *queue) push(j job, rank hold.Rank) {
	q.n++
	if n := j.queued(); n != nil {
		*n++
	}
	last := len(q.sections) - 1
	if last < 0 || q.sections[last].mode != rank.Mode && q.sections[last].next() != nil {
		q.sections = append(q.sections, section{})
		last++
	}
	s := &q.sections[last]
	if s.mode = rank.Mode; s.mode == core.FairShare {
		s.byFlow.Push(&fair.Item[job]{N: max(j.permits, 1), Value: j}, fair.Flow(*rank.Flow))
	} else {
		s.byAge.Push(j)
	}
}

// first returns the job that is served next; nil if there is none.
func (q *queue) first() *job {
	if q.n == 0 {
		return nil
	}
	for {
		j := q.sections[0].next()
		switch {
		case j == nil:
			q.sections = q.sections[1:]
		case j.isBack():
			q.sections[0].pop(false)
			q.back--
		default:
			return j
		}
	}
}

// pop removes and returns the job that is served next; there must be one.
func (q *queue) pop() job {
	q.first()
	return q.popFirst()
}

// popFirst is pop after first.
func (q *queue) popFirst() job {
	j := q.sections[0].pop(true)
	q.n--
	if n := j.queued(); n != nil {
		*n--
	}
	if q.back > q.n {
		q.sweep()
	}
	return j
}

// takeBack takes back the jobs that are counted by *queued, and returns how many they are. No job is counted by it later.
func (q *queue) takeBack(queued *int) (n int) {
	n, *queued = *queued, 0
	q.n -= n
	if q.back += n; q.back > q.n {
		q.sweep()
	}
	return n
}

// sweep removes the jobs that were taken back, and the sections that are empty then. The last section stays: what comes
// later is behind the sections before it.
func (q *queue) sweep() {
	q.back = 0
	for i := range q.sections {
		q.sections[i].sweep()
	}
	behind := len(q.sections)
	q.sections = slices.DeleteFunc(q.sections, func(s section) bool {
		behind--
		return behind > 0 && s.next() == nil
	})
}

// next returns the job of the section that is served next; nil if there is none.
func (s *section) next() *job {
	switch n := s.byAge.Len(); {
	case s.mode == core.FairShare:
		if it := s.byFlow.Next(); it != nil {
			return &it.Value
		}
		return nil
	case n == 0:
		return nil
	case s.mode == core.NewestFirst:
		return s.byAge.At(n - 1)
	default:
		return s.byAge.At(0)
	}
}

// pop removes and returns the job that next returned. If the job starts, its flow is charged.
func (s *section) pop(starts bool) (j job) {
	switch s.mode {
	case core.OldestFirst:
		return s.byAge.Pop()
	case core.NewestFirst:
		s.byAge.PopBackTo(&j)
		return j
	}
	it := s.byFlow.Next()
	if starts {
		s.byFlow.Take(it)
	} else {
		s.byFlow.Remove(it)
	}
	return it.Value
}

// sweep removes the jobs that were taken back.
func (s *section) sweep() {
	s.byFlow.Discard(func(j job) bool { return j.isBack() })
	for range s.byAge.Len() {
		if j := s.byAge.Pop(); !j.isBack() {
			s.byAge.Push(j)
		}
	}
}
