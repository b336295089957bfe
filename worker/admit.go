package worker

import (
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// freeLocked reports whether a slot is free for one more task.
func (p *Pool) freeLocked() bool { return p.maxWorkers == 0 || p.slots < p.maxWorkers }

// firstLocked reports whether a slot is free and no other task is ahead of a new one.
func (p *Pool) firstLocked() bool {
	return p.leader == nil && p.queue.Len() == 0 && p.blocked.Empty() && p.freeLocked()
}

// roomLocked reports whether there is room in the queue. The leader's task counts as queued.
func (p *Pool) roomLocked() bool {
	_, queued := p.countLocked()
	return queued < p.queueLimit
}

// advanceLocked gives slots and plain permits to the jobs at the head of the queue, and the lead to the first that
// lacks permits. It is called after every change that adds a job or frees room, a slot, permits or the lead. After it
// the queue is empty, or a job leads, or no slot is free. A leader that does not call the limiter yet gets plain
// permits here too.
func (p *Pool) advanceLocked() {
	for {
		if j := p.leader; j != nil && !j.asking && p.limiter.TryPlain(j.permits) {
			p.leader = nil
			p.startLocked(j)
		}
		p.fillLocked()
		if p.leader != nil || !p.freeLocked() || p.queue.Len() == 0 {
			return
		}
		j := p.popLocked()
		var caller *wait.Waiter[*job]
		if j.has {
			caller, j.caller = j.caller, nil
		}
		if caller != nil && !caller.Decide(wait.Granted) {
			continue // the call has ended, and withdraws the job
		}
		p.slots++
		if p.limiter.TryPlain(j.permits) {
			p.startLocked(j)
			if caller != nil {
				caller.Value = nil
			}
		} else {
			p.leader, j.asking = j, caller != nil // a caller asks at once
		}
		caller.Wake()
	}
}

// leadLocked makes the next job the leader, after permits were passed: that there are others is left to the leader to find
// out.
func (p *Pool) leadLocked() {
	p.fillLocked()
	if p.queue.Len() > 0 && p.freeLocked() {
		p.leader = p.popLocked()
		p.slots++
	}
}

// fillLocked gives free room in the queue to the blocked calls. A call whose context is done gets nothing.
func (p *Pool) fillLocked() {
	for !p.blocked.Empty() && p.queueLimit > 0 && p.roomLocked() {
		w := p.blocked.Decide(wait.Granted)
		if w == nil {
			return
		}
		p.acceptLocked(w.Value, w.Value.rank)
		w.Value = nil
		w.Wake()
	}
}

// acceptLocked queues a job in a pool with a queue.
func (p *Pool) acceptLocked(j *job, rank hold.Rank) {
	p.queue.Push(&j.place, j, j.permits, rank)
	if rank.Flow != nil {
		j.extra().rank = rank
	}
	if j.owner != nil && j.owner.group != nil {
		r := j.extra()
		r.inGroup.Value = j
		j.owner.group.queued.Push(&r.inGroup)
	}
}

// popLocked takes the next job out of the queue, which is not empty.
func (p *Pool) popLocked() *job {
	j := p.queue.Pop()
	if j.has {
		j.inGroup.Remove()
	}
	return j
}

func (p *Pool) leaveQueueLocked(j *job) {
	p.queue.Remove(&j.place)
	j.inGroup.Remove()
}

// startLocked hands a job that has a slot and a lease to the workers.
func (p *Pool) startLocked(j *job) {
	p.running++
	p.ready.Push(j)
}

// takeBack takes the task of a Do or Map out of the queue, and counts it as failed. It
// reports whether the task was there; then the caller has to finish it.
func (p *Pool) takeBack(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.job.place.Queued() {
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
	for ; g.queued.Len() > 0; n++ {
		p.dropLocked(g.queued.First().Value)
	}
	if n > 0 {
		p.droppedLocked()
	}
	return n
}

func (p *Pool) dropLocked(j *job) {
	p.leaveQueueLocked(j)
	p.recycleLocked(j)
	p.done++
	p.failed++
}

// droppedLocked gives the room of dropped tasks to others.
func (p *Pool) droppedLocked() {
	p.advanceLocked()
	p.spawnLocked()
	p.idleLocked()
}
