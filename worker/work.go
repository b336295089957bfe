package worker

import (
	"runtime"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/ending"
	"github.com/sluice-go/sluice/internal/limiter"
)

// lookouts is how often a worker without a task gives way to others and looks again
// before it ends, or waits for permits. While work flows, that is cheaper than a new
// goroutine, or a wait in the limiter; a worker that blocked would outlast the pool's rest.
const lookouts = 16

// scouts looks for a task, and gives way to others before it looks again.
func (p *Pool) scouts(w *worker) {
	if w.looks > 0 {
		runtime.Gosched()
	}
	p.mu.Lock()
	p.unlockAndMoveOn(w)
}

// find is what a worker finds when it looks for work.
type find uint8

const (
	nothing find = iota
	later        // a task waits for permits, which may be back in a moment
	taken        // a task, for the worker to run or to ask for
)

// unlockAndMoveOn gives a worker without a task its next state: it takes a task, goes on
// looking, or is gone. The mutex is held before, not after.
func (p *Pool) unlockAndMoveOn(w *worker) {
	found := p.takeLocked(w)
	if found == taken {
		if w.scout {
			w.scout, p.scouted = false, false
		}
		w.looks = 0
		p.unlockAndScout()
		return
	}
	w.admitted = admitted{}
	ends := found == nothing && (w.looks >= lookouts || p.idlers.first != nil || p.closed)
	if ends || p.scouted && !w.scout {
		if w.scout {
			p.scouted = false
		}
		w.state = gone
		p.workers--
		p.restLocked()
		p.unlockAndScout()
		return
	}
	w.state = scouting
	w.scout, p.scouted = true, true
	w.looks++
	p.mu.Unlock()
}

// takeLocked takes the next task, if there is one, and sets the state that goes with it.
func (p *Pool) takeLocked(w *worker) find {
	if p.ready.n > 0 {
		w.admitted = *p.ready.front()
		p.ready.pop()
		w.state = running
		return taken
	}
	if p.asked.now() || p.waitingLocked() == 0 || !p.freeLocked() {
		return nothing
	}
	for p.waiting.front().gone() {
		p.waiting.pop()
		p.dropped--
	}
	e := p.waiting.front()
	switch {
	case p.tryPlain(e.permits):
		w.state = running
	case p.plain != nil && e.permits > 0 && w.looks < lookouts && !p.closed:
		return later
	default:
		p.asked.begin()
		w.state = asking
	}
	p.running++
	if e.call != nil {
		e.call.queued = false
	}
	w.admitted = admitted{entry: *e}
	p.waiting.pop()
	if p.blocked.first != nil {
		p.grantLocked()
	}
	return taken
}

// unlockAndScout lets go of the mutex, and starts a worker if there is work that no worker
// would find.
func (p *Pool) unlockAndScout() {
	start := !p.scouted && (p.most == 0 || p.workers < p.most) &&
		(p.ready.n > 0 || p.waitingLocked() > 0 && p.freeLocked() && !p.asked.heeded())
	if start {
		p.scouted = true
		p.workers++
	}
	p.mu.Unlock()
	if start {
		go p.begin()
	}
}

// asks gets the task that was at the head of the queue its lease.
func (p *Pool) asks(w *worker) {
	ctx := w.context(p)
	lease, err := p.acquireQueued(ctx, w.permits)
	if err != nil {
		p.refused(w, ctx.Explain(err))
		return
	}
	w.lease = lease
	if p.asked.endUnheeded() {
		w.state = running
		return
	}
	p.mu.Lock()
	if err := p.ended; err != nil { // the round was cancelled as it was granted
		p.mu.Unlock()
		p.refund(&w.admitted)
		p.refused(w, err)
		return
	}
	p.asked.end()
	p.grantLocked()
	p.unlockAndScout()
	w.state = running
}

// acquireQueued is for the limiter's wait, after a few looks at whether short tasks are
// back before it. A scout has had these for plain permits.
func (p *Pool) acquireQueued(ctx *ending.Context, n int) (core.Lease, error) {
	for looks := 0; looks < lookouts && p.plain == nil && !p.rated; looks++ {
		if l, ok, err := p.try(n); ok || err != nil {
			return l, err
		}
		runtime.Gosched()
		if ctx.Err() != nil {
			break
		}
	}
	return p.persist(ctx, n)
}

// refused ends a task that has not got its lease.
func (p *Pool) refused(w *worker, err error) {
	cancels := p.cancels(w.call)
	p.mu.Lock()
	cancels = cancels && p.ended == nil
	p.asked.end()
	p.running--
	p.failLocked(w.call, err)
	if cancels && w.call != nil {
		p.failures.add(err)
	}
	p.grantLocked()
	w.err, w.state = err, settling
	p.unlockAfter(err, cancels)
}

// cancels reports whether an error of a task would cancel the round: not that of a call
// whose caller has given it up.
func (p *Pool) cancels(c *call) bool { return p.cancelOnError && (c == nil || c.ctx.Err() == nil) }

// unlockAfter goes on after a task, whose error may be one that cancels the round. The mutex
// is held before, not after.
func (p *Pool) unlockAfter(err error, cancels bool) {
	if cancels {
		p.unlockAndCancel(err)
	} else {
		p.unlockAndScout()
	}
}

// context returns the context that the task runs and is admitted by.
func (w *worker) context(p *Pool) *ending.Context {
	if w.call != nil {
		return w.call.ctx
	}
	return p.round.Load().ctx
}

// runs calls the task, but not if its caller has left.
func (p *Pool) runs(w *worker) {
	ctx := w.context(p)
	if w.call != nil {
		if err := ctx.Err(); err != nil {
			w.err, w.ran, w.state = ctx.Explain(err), false, counting
			return
		}
	}
	w.ran = true
	w.err = w.task(ctx)
	w.state = counting
}

// ends counts a task that has ended. That comes before its lease is back, so that never
// more run than there are leases; Wait sees that the worker has not left yet.
func (p *Pool) ends(w *worker) {
	if w.err == nil && w.call == nil {
		p.mu.Lock()
		p.running--
		p.done++
		if p.queue == 0 && p.blocked.first != nil {
			p.grantLocked()
		}
		if p.givePlain(&w.admitted) {
			p.unlockAndMoveOn(w)
			return
		}
		w.owed, w.next = w.lease, settling
		if p.takeLocked(w) == taken {
			w.next = w.state
		}
		w.state = releasing
		p.unlockAndScout()
		return
	}
	p.endsSlow(w)
}

func (p *Pool) endsSlow(w *worker) {
	cancels := w.err != nil && p.cancels(w.call)
	p.mu.Lock()
	p.running--
	p.done++
	switch {
	case w.err == nil:
	case w.panicked:
		p.panicked++
	default:
		p.failed++
	}
	cancels = cancels && p.ended == nil
	told := w.panicked && p.onPanic != nil
	if told {
		p.reserved++ // the task has ended, and OnPanic may take its time; the goroutine is not free
	}
	if w.err != nil && (w.call == nil && !told || cancels) {
		p.failures.add(w.err)
	}
	if p.queue == 0 {
		p.grantLocked()
	}
	w.next = settling
	if told {
		w.next = telling
	}
	w.owed, w.state = w.lease, releasing
	if p.givePlain(&w.admitted) {
		w.state = w.next
	}
	p.unlockAfter(w.err, cancels)
}

// releases gives the lease back of the task that has ended.
func (p *Pool) releases(w *worker) {
	if w.ran {
		w.owed.Release()
	} else {
		limiter.Refund(p.limiter, w.owed)
	}
	w.state = w.next
}

// tells calls OnPanic.
func (p *Pool) tells(w *worker) {
	caught := w.err.(*PanicError) //nolint:errorlint,forcetypeassert // it is the worker's own
	p.onPanic(caught.Value, caught.Stack)
	w.state = settling
}

// settles tells the caller that waits for the task, and goes on to the next.
func (p *Pool) settles(w *worker) {
	if w.call != nil {
		w.call.settle(w.err)
	}
	p.mu.Lock()
	if w.panicked && p.onPanic != nil {
		p.reserved--
		if p.queue == 0 {
			p.grantLocked()
		}
	}
	*w = worker{scout: w.scout}
	p.unlockAndMoveOn(w)
}
