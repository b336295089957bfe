package worker

import "github.com/sluice-go/sluice/internal/wait"

// freeLocked reports whether a place is free for one more task.
func (p *Pool) freeLocked() bool { return p.most == 0 || p.places < p.most }

// firstLocked reports whether a place is free and no other task is ahead of a new one.
func (p *Pool) firstLocked() bool {
	return !p.leading && p.queue.len() == 0 && p.blocked.Empty() && p.freeLocked()
}

// roomLocked reports whether there is room in the queue. The leader's task counts as queued.
func (p *Pool) roomLocked() bool {
	_, queued := p.countLocked()
	return queued < p.queueLimit
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
	if p.queueLimit == 0 {
		p.grantLocked()
	}
}

// grantLocked gives free room in the queue or, in a pool without a queue, free places to the
// blocked Submit calls. A call whose context is done gets nothing.
func (p *Pool) grantLocked() {
	for !p.blocked.Empty() && (p.queueLimit > 0 && p.roomLocked() || p.queueLimit == 0 && p.freeLocked()) {
		w := p.blocked.Decide(wait.Granted)
		if w == nil {
			return
		}
		if p.queueLimit > 0 {
			p.queue.push(p.acceptLocked(w.Value))
		} else {
			p.places++
		}
		w.Wake()
	}
}

// takeBack takes the task of a Do or Map out of the queue, and counts it as failed. It
// reports whether the task was there; then the caller has to finish it.
func (p *Pool) takeBack(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.job.queued {
		return false
	}
	p.dropLocked(&c.job)
	p.droppedLocked()
	return true
}

// takeBackAll is takeBack for all tasks of the group. It returns their number.
func (p *Pool) takeBackAll(g *Group) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; g.queued.first != nil; n++ {
		p.dropLocked(g.queued.first)
	}
	if n > 0 {
		p.droppedLocked()
	}
	return n
}

func (p *Pool) dropLocked(j *job) {
	p.queue.remove(j)
	p.recycleLocked(j)
	p.done++
	p.failed++
}

// droppedLocked gives the room of dropped tasks to others.
func (p *Pool) droppedLocked() {
	p.grantLocked()
	p.spawnLocked()
	p.idleLocked()
}
