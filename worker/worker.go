package worker

import (
	"context"
	"runtime"

	"github.com/sluice-go/sluice/core"
)

// worker is a goroutine of a pool. Only that goroutine uses its fields. It ends if it neither has a task nor scouts.
type worker struct {
	job              // its task
	lease core.Lease // the task's; zero if it has plain permits, or none yet

	scouts   bool // it looks after the first job in the queue
	leads    bool // the limiter has to be called for the task's lease
	runs     bool // its task has not returned
	ran      bool // the task was called
	ended    bool // the end of the task is counted, and its plain permits are returned
	panicked *PanicError
	err      error // the task's
}

func (w *worker) works() bool { return w.task != nil || w.scouts }

// work is the goroutine of a new worker.
func (p *Pool) work() {
	var w worker
	p.mu.Lock()
	p.starting = false
	p.nextLocked(&w)
	p.mu.Unlock()
	p.loop(&w)
}

// loop runs one task after another. If user code calls runtime.Goexit, a new goroutine continues.
func (p *Pool) loop(w *worker) {
	defer func() {
		if w.works() {
			next := *w
			go p.loop(&next)
		}
	}()
	for w.works() {
		if w.scouts {
			p.scout(w)
		} else {
			p.do(w)
		}
	}
}

// mostYields bounds how often a worker yields before it asks the limiter, whatever progress the pool makes: others may
// share the limiter.
const mostYields = 16

// scout looks after the first job in the queue, until there is none or the worker has to ask for its lease. Workers whose
// tasks end meanwhile keep their permits and take the next jobs. Once a job waits in the limiter, each end of a task
// wakes its worker and ends another, and a task of BenchmarkPoolYield of bench takes one and a half times as long. So scout
// yields as long as tasks end. It also takes permits that others have returned.
func (p *Pool) scout(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scouted = false
	for i, done := 0, p.counts.Done-1; ; i++ {
		p.nextLocked(w)
		if !w.scouts {
			return // it has a task, or there is none
		}
		if i == mostYields || p.counts.Done == done || !p.limiter.Plain(p.queue.first().permits) {
			break
		}
		done = p.counts.Done
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
		p.scouted = false
	}
	w.scouts, p.scouted = false, false
	w.job, w.leads = p.queue.pop(), true
	p.slots++
	p.asking = true
}

// do runs the worker's tasks. The limiter, the task and OnPanic may panic or call runtime.Goexit; then recovered ends the
// task.
func (p *Pool) do(w *worker) {
	defer p.recovered(w)
	for w.task != nil {
		w.runs, w.err = true, ErrGoexit // unless user code returns
		w.err = p.call(w)
		w.runs = false
		p.end(w)
	}
}

// call gets the lease of the worker's task, if it has none, and calls the task.
func (p *Pool) call(w *worker) error {
	if w.leads {
		if err := p.lead(w); err != nil {
			return err
		}
	}
	ctx := p.ctxOf(w.owner)
	if w.owner != nil {
		if err := reasonToEnd(ctx); err != nil {
			return err
		}
	}
	w.ran = true
	return w.task(ctx)
}

// lead waits for the lease of the worker's task.
func (p *Pool) lead(w *worker) error {
	own := p.ctxOf(w.owner)
	ctx := context.Context(own)
	if w.turn != nil {
		ctx = core.WithFlow(ctx, *w.turn.rank.Flow)
	}
	h, err := p.limiter.Take(ctx, nil, w.permits)
	if err != nil {
		return own.Explain(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking, w.leads = false, false
	w.lease = h.Lease
	p.running++
	p.advanceLocked()
	return nil
}

// recovered is deferred. It turns a panic into the task's error, and ends the task.
func (p *Pool) recovered(w *worker) {
	if !w.runs {
		return
	}
	if v := recover(); v != nil { //nolint:revive // recovered itself is deferred
		if p.crashes {
			w.task = nil // loop must not continue
			panic(v)
		}
		w.fail(v)
	}
	w.runs = false
	p.end(w)
}

// end returns the lease, calls OnPanic, and takes the next task. next returns plain permits, so that a task that holds them
// ends under one lock.
func (p *Pool) end(w *worker) {
	if w.err == nil && p.limiter.Plain(w.permits) {
		p.next(w)
	} else {
		p.endSlow(w)
	}
}

// endSlow is the part of end that may call user code. It is a function of its own because the stack of a new
// goroutine has to hold the frames of end and of what it calls: BenchmarkPool/impl=sluice-unqueued in
// bench takes 1.5 times as long if it has to grow.
func (p *Pool) endSlow(w *worker) {
	defer p.next(w)
	if w.err != nil && w.owner != nil && w.owner.group != nil {
		w.owner.group.fail(w.err) // before the permits are free, so that no other task of the group starts
	}
	if !w.leads && !p.limiter.Plain(w.permits) {
		p.giveBack(w)
	}
	if w.panicked == nil || p.onPanic == nil {
		return
	}
	p.mu.Lock()
	p.endLocked(w)
	p.advanceLocked()
	p.mu.Unlock()
	p.callOnPanic(w.panicked)
}

// giveBack returns the task's lease. The limiter may panic.
func (p *Pool) giveBack(w *worker) {
	defer func() {
		v := recover()
		if v != nil && w.err == nil {
			w.err = caught(v, "limiter")
		}
		if v != nil && p.crashes {
			panic(v)
		}
	}()
	if w.ran {
		w.lease.Release()
	} else {
		w.lease.Refund()
	}
}

// fail makes a recovered value the task's error.
func (w *worker) fail(value any) {
	if !w.ran {
		w.err = caught(value, "limiter")
		return
	}
	w.panicked = caught(value, "task")
	w.err = w.panicked
}

func (p *Pool) callOnPanic(e *PanicError) {
	defer func() {
		if v := recover(); v != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.failures.add(caught(v, "OnPanic"))
		}
	}()
	p.onPanic(e.Value, e.Stack)
}

// next ends the worker's task, takes the next task, and reports the end of the former.
func (p *Pool) next(w *worker) {
	o, err := w.owner, w.err
	p.mu.Lock()
	if p.passLocked(w) {
		p.advanceLocked()
	} else {
		p.endLocked(w)
		p.slots--
		p.nextLocked(w)
	}
	p.mu.Unlock()
	o.finish(err)
}

// passLocked ends the worker's task and takes the next, if the worker can pass its plain permits and its slot on to the
// first job in the queue. That takes a third of the limiter's time that it takes to return and to take them.
func (p *Pool) passLocked(w *worker) bool {
	if w.ended || w.leads || p.queue.n == 0 || p.asking || p.ready.Len() > 0 {
		return false
	}
	if n := w.permits; p.queue.first().permits != n || !p.limiter.Plain(n) || !p.limiter.PassPlain(n) {
		return false
	}
	p.countEndLocked(w)
	w.ran, w.panicked = false, nil
	w.job = p.queue.popFirst()
	return true
}

// endLocked counts the end of the worker's task, once, and returns its plain permits.
func (p *Pool) endLocked(w *worker) {
	if w.ended {
		return
	}
	w.ended = true
	if w.leads {
		p.asking = false
	} else {
		p.running--
		if p.limiter.Plain(w.permits) {
			p.limiter.GivePlain(w.permits)
		}
	}
	p.countEndLocked(w)
}

// countEndLocked counts the end of the worker's task.
func (p *Pool) countEndLocked(w *worker) {
	p.counts.Done++
	switch {
	case w.err == nil:
		return
	case w.panicked != nil:
		p.counts.Panicked++
	default:
		p.counts.Failed++
	}
	if w.owner == nil && (w.panicked == nil || p.onPanic == nil) {
		p.failures.add(w.err)
	}
}

// waitsLocked reports whether the first job in the queue waits for permits alone, and a worker has to look after it.
func (p *Pool) waitsLocked() bool {
	return p.queue.n > 0 && !p.asking && p.freeLocked()
}

// nextLocked gives a worker its next task or the care of the first job in the queue. The worker ends if there is neither.
func (p *Pool) nextLocked(w *worker) {
	*w = worker{}
	if p.ready.Len() > 0 {
		if w.job = p.ready.Pop(); !p.limiter.Plain(w.permits) {
			w.lease = p.leases.Pop()
		}
	} else if w.job, _ = p.tryFirstLocked(); w.task == nil && !p.scouted && p.waitsLocked() {
		w.scouts, p.scouted = true, true
	}
	if !w.works() {
		p.workers--
	}
	p.advanceLocked()
	p.idleLocked()
}
