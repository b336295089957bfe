package worker

import (
	"context"
	"runtime"

	"github.com/sluice-go/sluice/core"
)

// worker is a goroutine of a pool. Only that goroutine uses its fields.
type worker struct {
	*job // its task; nil: there is none, and the goroutine ends

	leads    bool // the limiter has to be asked for the task's lease
	ran      bool // the task was called
	ended    bool // the end of the task is counted
	panicked *PanicError
	err      error // the task's
}

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
		if w.job != nil {
			next := *w
			go p.loop(&next)
		}
	}()
	for w.job != nil {
		p.do(w)
	}
}

// do runs the worker's task, and takes the next. The limiter, the task and OnPanic may panic or call
// runtime.Goexit, so whatever follows is deferred.
func (p *Pool) do(w *worker) {
	w.err = ErrGoexit // unless user code returns
	defer p.end(w)
	if w.leads {
		if err := p.lead(w); err != nil {
			w.err = err
			return
		}
	}
	if !w.submitted() {
		if err := reasonToEnd(w.ctx); err != nil {
			w.err = err
			return
		}
	}
	w.ran = true
	w.err = w.task(w.ctx)
}

// lead waits for the lease of the leader's task.
func (p *Pool) lead(w *worker) error {
	if p.limiter.Plain(w.permits) {
		// Tasks that end meanwhile give their permits to the leader. Once it waits in the limiter, the end of a task wakes
		// it, ends a worker and starts another: without the yield, BenchmarkPoolYield of bench takes two to four times as long.
		runtime.Gosched()
	}
	if p.granted(w) {
		return nil
	}
	ctx := context.Context(w.ctx)
	if w.rank.Flow != nil {
		ctx = core.WithFlow(ctx, *w.rank.Flow)
	}
	h, err := p.limiter.Take(ctx, nil, w.permits)
	if err != nil {
		return w.ctx.Explain(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leader = nil
	p.grantLocked(w.job, h)
	p.advanceLocked()
	p.spawnLocked()
	return nil
}

// granted reports whether the worker's task, which was the leader's, has its lease. If not, the worker has to ask for it.
func (p *Pool) granted(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.asking = p.leader == w.job
	return !w.asking
}

// end is deferred. It turns a panic into the task's error, returns the lease, calls OnPanic, and takes the next
// task. endLocked returns plain permits, so that a task that holds them ends under one lock.
func (p *Pool) end(w *worker) {
	if v := recover(); v != nil { //nolint:revive // end itself is deferred
		w.fail(v)
	}
	if w.err == nil && w.hold.Permits > 0 {
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
	if w.err != nil && w.group != nil {
		w.group.fail(w.err) // before the permits are free, so that no other task of the group starts
	}
	if w.hold.Permits == 0 {
		p.giveBack(w)
	}
	if w.panicked == nil || p.onPanic == nil {
		return
	}
	p.mu.Lock()
	p.endLocked(w)
	p.advanceLocked()
	p.spawnLocked()
	p.mu.Unlock()
	p.callOnPanic(w.panicked)
}

// giveBack returns the task's lease. The limiter may panic.
func (p *Pool) giveBack(w *worker) {
	defer func() {
		if v := recover(); v != nil && w.err == nil {
			w.err = caught(v, "limiter")
		}
	}()
	if w.ran {
		p.limiter.Release(w.hold)
	} else {
		p.limiter.Refund(w.hold)
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

// next gives up the slot of the worker's task, takes the next task, and reports the end of the former.
func (p *Pool) next(w *worker) {
	o, err := w.owner, w.err
	p.mu.Lock()
	p.endLocked(w)
	p.recycleLocked(w.job)
	p.slots--
	p.nextLocked(w)
	p.mu.Unlock()
	o.finish(err)
}

// endLocked counts the end of the worker's task, once, and returns its plain permits.
func (p *Pool) endLocked(w *worker) {
	if w.ended {
		return
	}
	w.ended = true
	if p.leader == w.job {
		p.leader = nil
	} else {
		p.running--
	}
	p.done++
	if w.hold.Permits > 0 {
		p.limiter.GivePlain(w.hold.Permits)
	}
	switch {
	case w.err == nil:
		return
	case w.panicked != nil:
		p.panicked++
	default:
		p.failed++
	}
	if w.submitted() && (w.panicked == nil || p.onPanic == nil) {
		p.failures.add(w.err)
	}
}

// spawnLocked starts a worker if there is work for one and none is starting. It is called
// after every change that may add work.
func (p *Pool) spawnLocked() {
	if p.ready.Len() > 0 && !p.starting && (p.maxWorkers == 0 || p.workers < p.maxWorkers) {
		p.starting = true
		p.workers++
		go p.newWorker()
	}
}

// nextLocked gives a worker its next task, and starts another worker if there is work left.
func (p *Pool) nextLocked(w *worker) {
	*w = worker{}
	p.advanceLocked()
	if p.ready.Len() == 0 {
		p.workers--
		p.idleLocked()
		return
	}
	w.job = p.ready.Pop()
	w.leads = p.leader == w.job
	p.spawnLocked()
}
