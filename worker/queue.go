package worker

import (
	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/wait"
)

// queue is the tasks that have no lease, in the order of acceptance. A Do, Map or Group whose
// context ends takes its tasks out; their entries stay in the ring until they are popped, or
// until they are more than half of it. Under core.FairShare they leave the queue at once.

// ticket is the place in the queue of a task of a Do, Map or Group. Pool.mu guards it.
type ticket struct {
	state      ticketState
	item       *fair.Item[entry] // in the queue by flow
	group      *Group            // nil: the task of a Do or Map
	prev, next *ticket           // in the group's list
}

type ticketState uint8

const (
	outside ticketState = iota
	queued
	dropped // the entry is still in the ring but does not count
)

// pushLocked queues a task.
func (p *Pool) pushLocked(e *entry) {
	if p.fair != nil && p.queuedLocked() == 0 {
		p.fairly = p.fair()
	}
	switch {
	case e.group != nil:
		e.ticket = &ticket{state: queued, group: e.group}
		e.group.linkLocked(e.ticket)
	case e.ticket != nil:
		e.ticket.state = queued
	}
	if p.fairly {
		p.pushByFlowLocked(e)
		return
	}
	p.waiting.Push(*e)
}

func (p *Pool) pushByFlowLocked(e *entry) {
	it := &fair.Item[entry]{N: max(e.permits, 1), Value: *e}
	if e.ticket != nil {
		e.ticket.item = it
	}
	f := fair.Flow{}
	if e.flow != nil {
		f = fair.Flow(*e.flow)
	}
	p.byFlow.Push(it, f)
}

// queuedLocked returns how many tasks are in the queue. The leader's task is not.
func (p *Pool) queuedLocked() int { return p.waiting.Len() - p.dropped + p.byFlow.Len() }

// popLocked removes and returns the first task of the queue, skipping dropped entries.
func (p *Pool) popLocked() (e entry, ok bool) {
	if it := p.byFlow.Next(); it != nil {
		p.byFlow.Take(it)
		if it.Value.ticket != nil {
			it.Value.ticket.leaveLocked(outside)
		}
		return it.Value, true
	}
	for p.waiting.Len() > 0 {
		e = p.waiting.Pop()
		if e.ticket == nil {
			return e, true
		}
		if e.ticket.state == queued {
			e.ticket.leaveLocked(outside)
			return e, true
		}
		p.dropped--
	}
	return entry{}, false
}

// leaveLocked takes the task out of the queue.
func (t *ticket) leaveLocked(s ticketState) {
	t.state, t.item = s, nil
	if t.group != nil {
		t.group.unlinkLocked(t)
	}
}

// takeBack drops the task of a Do or Map from the queue, and counts it as failed. It
// reports whether the task was there; then the caller has to finish it.
func (p *Pool) takeBack(t *ticket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := t.state == queued
	if was {
		p.dropLocked(t)
		p.droppedLocked()
	}
	return was
}

// takeBackAll is takeBack for all tasks of the group. It returns their number.
func (p *Pool) takeBackAll(g *Group) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; g.queued != nil; n++ {
		p.dropLocked(g.queued)
	}
	if n > 0 {
		p.droppedLocked()
	}
	return n
}

func (p *Pool) dropLocked(t *ticket) {
	if t.item != nil {
		p.byFlow.Remove(t.item)
	} else {
		p.dropped++
	}
	t.leaveLocked(dropped)
	p.done++
	p.failed++
}

// droppedLocked removes the dropped entries when they are more than half of the queue, so that
// the cost of a pass is constant for each removed entry, and gives their room to others.
func (p *Pool) droppedLocked() {
	if p.dropped > p.waiting.Len()/2 {
		for range p.waiting.Len() {
			if e := p.waiting.Pop(); e.ticket == nil || e.ticket.state == queued {
				p.waiting.Push(e)
			}
		}
		p.dropped = 0
	}
	p.grantLocked()
	p.spawnLocked()
	p.idleLocked()
}

// grantLocked gives free room in the queue or, in a pool without a queue, free places to the
// blocked Submit calls. A call whose context is done gets nothing.
func (p *Pool) grantLocked() {
	for !p.blocked.Empty() && (p.queue > 0 && p.roomLocked() || p.queue == 0 && p.freeLocked()) {
		w := p.blocked.Decide(wait.Granted)
		if w == nil {
			return
		}
		if p.queue > 0 {
			p.pushLocked(&w.Value)
		} else {
			p.places++
		}
		w.Wake()
	}
}

// vacate gives up a place.
func (p *Pool) vacate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vacateLocked()
	p.spawnLocked()
}

func (p *Pool) vacateLocked() {
	p.places--
	if p.queue == 0 {
		p.grantLocked()
	}
}

// freeLocked reports whether a place is free for one more task.
func (p *Pool) freeLocked() bool { return p.most == 0 || p.places < p.most }

// firstLocked reports whether a place is free and no other task is ahead of a new one.
func (p *Pool) firstLocked() bool {
	return !p.leading && p.queuedLocked() == 0 && p.blocked.Empty() && p.freeLocked()
}

// roomLocked reports whether there is room in the queue. The leader's task counts as queued.
func (p *Pool) roomLocked() bool {
	_, queued := p.countLocked()
	return queued < p.queue
}
