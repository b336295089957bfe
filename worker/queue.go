package worker

import (
	"container/list"
	"context"
)

// pushLocked queues a task.
func (p *Pool) pushLocked(e *entry) {
	if e.call != nil {
		e.call.inQueue = queued
	}
	p.waiting.push(*e)
}

// queuedLocked returns how many tasks are in the queue. The leader's task is not.
func (p *Pool) queuedLocked() int { return p.waiting.n - p.dropped }

// popLocked removes and returns the first task of the queue, skipping dropped entries.
func (p *Pool) popLocked() (e entry, ok bool) {
	for p.waiting.n > 0 {
		e = p.waiting.pop()
		if e.call == nil {
			return e, true
		}
		if e.call.inQueue == queued {
			e.call.inQueue = outside
			return e, true
		}
		p.dropped--
	}
	return entry{}, false
}

// waiter is a Submit call that waits for room in the queue or, if there is no queue, for a
// place.
type waiter struct {
	ctx      context.Context
	entry    entry
	position *list.Element
	ready    chan struct{} // closed when its task is queued, or it has a place, or err is set
	err      error         // why the task is not accepted; set before ready is closed
}

// blockLocked appends a waiter for a Submit call.
func (p *Pool) blockLocked(ctx context.Context, e *entry) *waiter {
	w := &waiter{ctx: ctx, entry: *e, ready: make(chan struct{})}
	w.position = p.blocked.PushBack(w)
	return w
}

// await waits until the task is queued or has a place, or w.ctx is done.
func (p *Pool) await(w *waiter) error {
	select {
	case <-w.ready:
		return w.err
	case <-w.ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.ready: // decided before this call took the mutex
		return w.err
	default:
		p.blocked.Remove(w.position)
		return w.ctx.Err()
	}
}

// wakeFirstLocked removes and wakes the first blocked Submit call.
func (p *Pool) wakeFirstLocked(err error) {
	w := p.blocked.Remove(p.blocked.Front()).(*waiter) //nolint:forcetypeassert // there are no others
	w.err = err
	close(w.ready)
}

// grantLocked gives free room in the queue or, in a pool without a queue, free places to the
// blocked Submit calls. A call whose context is done gets nothing.
func (p *Pool) grantLocked() {
	for p.blocked.Len() > 0 {
		w := p.blocked.Front().Value.(*waiter) //nolint:forcetypeassert // there are no others
		err := w.ctx.Err()
		switch {
		case err != nil:
		case p.queue > 0 && p.roomLocked():
			p.pushLocked(&w.entry)
		case p.queue == 0 && p.freeLocked():
			p.places++
		default:
			return
		}
		p.wakeFirstLocked(err)
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
	return !p.leading && p.queuedLocked() == 0 && p.blocked.Len() == 0 && p.freeLocked()
}

// roomLocked reports whether there is room in the queue. The leader's task counts as queued.
func (p *Pool) roomLocked() bool {
	_, queued := p.countLocked()
	return queued < p.queue
}

// takeBack drops the queued task of the call c, or all queued tasks of the group g, and counts
// them as failed with err. Their room in the queue is free at once. It returns their number.
// The caller has to settle them.
func (p *Pool) takeBack(c *call, g *Group, err error) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c != nil && c.inQueue == queued {
		p.dropLocked(c, err)
		n = 1
	}
	for i := 0; g != nil && i < p.waiting.n; i++ {
		if c := p.waiting.at(i).call; c != nil && c.group == g && c.inQueue == queued {
			p.dropLocked(c, err)
			n++
		}
	}
	// Remove the dropped entries when they are more than half of the queue, so that the cost of
	// a pass is constant for each removed entry.
	if p.dropped > p.waiting.n/2 {
		var kept ring[entry]
		for p.waiting.n > 0 {
			if e := p.waiting.pop(); e.call == nil || e.call.inQueue == queued {
				kept.push(e)
			}
		}
		p.waiting, p.dropped = kept, 0
	}
	p.grantLocked()
	p.spawnLocked()
	p.restLocked()
	return n
}

func (p *Pool) dropLocked(c *call, err error) {
	c.inQueue = dropped
	p.dropped++
	p.failLocked(c, err)
}
