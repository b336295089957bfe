package worker

import "github.com/sluice-go/sluice/internal/fair"

// queue is the jobs that have no lease yet, in the order in which they get it. Pool.mu guards it. A job is
// taken out at once if its Do, Map or Group ends.
type queue struct {
	byAge  list             // in the order of acceptance
	byFlow fair.Queue[*job] // used instead, if the limiter's order was FairShare when the queue was last empty
	fairly bool             // byFlow is used
}

func (q *queue) len() int { return q.byAge.n + q.byFlow.Len() }

func (q *queue) push(j *job) {
	if q.len() == 0 {
		q.fairly = j.flow != nil
	}
	j.queued = true
	if j.group != nil {
		j.group.queued.push(j)
	}
	if !q.fairly {
		q.byAge.push(j)
		return
	}
	var f fair.Flow
	if j.flow != nil {
		f = fair.Flow(*j.flow)
	}
	j.item = &fair.Item[*job]{N: max(j.permits, 1), Value: j}
	q.byFlow.Push(j.item, f)
}

// pop removes and returns the next job; nil if there is none.
func (q *queue) pop() *job {
	j := q.byAge.first
	if it := q.byFlow.Next(); it != nil {
		q.byFlow.Take(it)
		j = it.Value
	}
	if j != nil {
		q.remove(j)
	}
	return j
}

func (q *queue) remove(j *job) {
	j.queued = false
	if j.group != nil {
		j.group.queued.remove(j)
	}
	if j.item == nil {
		q.byAge.remove(j)
		return
	}
	q.byFlow.Remove(j.item) // no effect after Take
	j.item = nil
}

// list is jobs in order. A job is in at most one list of a kind. Pool.mu guards it.
type list struct {
	kind        listKind
	first, last *job
	n           int
}

type listKind uint8

const (
	inQueue listKind = iota
	inGroup          // the queued jobs of one Group
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
