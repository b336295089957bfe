package worker

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/wait"
)

// freeLocked reports whether a slot is free for one more task.
func (p *Pool) freeLocked() bool { return p.maxWorkers == 0 || p.slots < p.maxWorkers }

// firstLocked reports whether a slot is free and no other task is ahead of a new one.
func (p *Pool) firstLocked() bool {
	return p.queue.n == 0 && !p.asking && p.freeLocked()
}

// roomLocked makes room in the queue if there is none, and reports whether there is. A task whose lease is being requested
// counts as queued.
func (p *Pool) roomLocked() bool {
	for !p.hasRoomLocked() {
		j, ok := p.tryFirstLocked()
		if !ok {
			return false
		}
		p.ready.Push(j)
		p.serveLocked()
	}
	return true
}

func (p *Pool) hasRoomLocked() bool {
	_, queued := p.countLocked()
	return queued < p.queueLimit
}

// tryFirstLocked gives a slot and plain permits to the first job in the queue of a pool with a queue, and removes the job,
// if it waits for nothing else.
func (p *Pool) tryFirstLocked() (j job, ok bool) {
	if !p.waitsLocked() || !p.limiter.TryPlain(p.queue.first().permits) {
		return job{}, false
	}
	p.slots++
	p.running++
	return p.queue.popFirst(), true
}

// advanceLocked is called after every change that adds a job or frees room, a slot or permits, or ends a call of the
// limiter. It serves the calls that wait, and starts a worker if there is work for one and none is starting. In a pool with
// a queue, workers take permits for the first job in the queue: no more than they can use.
func (p *Pool) advanceLocked() {
	p.serveLocked()
	works := p.ready.Len() > 0 || !p.scouted && p.waitsLocked()
	if works && !p.starting && (p.maxWorkers == 0 || p.workers < p.maxWorkers) {
		p.starting = true
		p.workers++
		go p.newWorker()
	}
}

// serveLocked serves the calls that wait: it queues their tasks if there is room. In a pool without a queue it gives them
// slots, and starts their tasks or lets them ask for the leases. A call whose context is done gets nothing.
func (p *Pool) serveLocked() {
	for p.calls.n > 0 && (p.hasRoomLocked() || p.queueLimit == 0 && !p.asking && p.freeLocked()) {
		t := p.calls.first().turn
		if !t.caller.Decide(wait.Granted) {
			p.calls.takeBack(&t.queued) // its flow is not charged
			continue
		}
		j := p.calls.popFirst()
		j.turn = turnOf(t.rank)
		switch {
		case p.queueLimit > 0:
			p.queue.push(j, t.rank)
		case p.limiter.TryPlain(j.permits):
			p.slots++
			p.startLocked(j, core.Lease{})
		default:
			p.slots++
			p.asking, t.asks = true, true
		}
		t.caller.Wake()
	}
}

// startLocked hands a job that has a slot and plain permits or a lease to the workers.
func (p *Pool) startLocked(j job, lease core.Lease) {
	p.running++
	p.ready.Push(j)
	if !p.limiter.Plain(j.permits) {
		p.leases.Push(lease)
	}
}

// takeBack takes the tasks of a Do, Map or Group out of the queue, counts them as failed, and returns their number. The
// caller has to finish them.
func (p *Pool) takeBack(o *owner) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n = p.queue.takeBack(&o.queued); n > 0 {
		p.counts.Done += uint64(n)
		p.counts.Failed += uint64(n)
		p.advanceLocked()
		p.idleLocked()
	}
	return n
}
