package worker

import (
	"context"
	"runtime"

	"github.com/sluice-go/sluice/core"
)

// worker is a goroutine of a pool. Only that goroutine uses its fields. It ends if it neither has a job nor scouts.
type worker struct {
	*job // its task

	scouts   bool // it has the care of the leader
	plain    int  // plain permits that it has; 0: the job has the lease
	leads    bool // the limiter has to be called for the task's lease
	ran      bool // the task was called
	ended    bool // the end of the task is counted
	panicked *PanicError
	err      error // the task's
}

func (w *worker) works() bool { return w.job != nil || w.scouts }

// work is the goroutine of a new worker.
func (p *Pool) work() {
	var w worker
	p.mu.Lock()
	p.starting = false
	p.advanceLocked()
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

// scout looks after the leader, until there is none or the worker has to ask for its lease. Tasks that end meanwhile pass
// their permits on to the leader, and their workers go on with it. Once the leader waits in the limiter, each end of a task
// wakes its worker and ends another, and a task of BenchmarkPoolYield of bench takes one and a half times as long. So scout
// yields as long as tasks end. It also takes permits that others have returned.
func (p *Pool) scout(w *worker) {
	p.mu.Lock()
	for i, done := 0, p.done-1; i < mostYields && p.done != done; i++ {
		if p.leader == nil || p.leader.asking || !p.limiter.Plain(p.leader.permits) {
			break
		}
		done = p.done
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
		p.advanceLocked()
	}
	w.scouts, p.scouted = false, false
	if p.leader == nil || p.ready.Len() > 0 {
		p.nextLocked(w)
	} else {
		p.scouted, p.leader.asking = true, true
		w.job, w.leads = p.leader, true
	}
	p.mu.Unlock()
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
	ctx := p.ctxOf(w.owner)
	if w.owner != nil {
		if err := reasonToEnd(ctx); err != nil {
			w.err = err
			return
		}
	}
	w.ran = true
	w.err = w.task(ctx)
}

// lead waits for the lease of the leader's task.
func (p *Pool) lead(w *worker) error {
	own := p.ctxOf(w.owner)
	ctx := context.Context(own)
	if w.has && w.rank.Flow != nil {
		ctx = core.WithFlow(ctx, *w.rank.Flow)
	}
	h, err := p.limiter.Take(ctx, nil, w.permits)
	if err != nil {
		return own.Explain(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leader, p.scouted = nil, false
	w.plain = h.Permits
	w.keep(h)
	p.running++
	p.advanceLocked()
	p.spawnLocked()
	return nil
}

// end is deferred. It turns a panic into the task's error, returns the lease, calls OnPanic, and takes the next
// task. endLocked returns plain permits, so that a task that holds them ends under one lock.
func (p *Pool) end(w *worker) {
	if v := recover(); v != nil { //nolint:revive // end itself is deferred
		if p.crashes {
			w.job = nil // loop must not continue
			panic(v)
		}
		w.fail(v)
	}
	if w.err == nil && w.plain > 0 {
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
	if w.plain == 0 && w.has {
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

// next gives up the slot of the worker's task, takes the next task, and reports the end of the former.
func (p *Pool) next(w *worker) {
	o, err := w.owner, w.err
	p.mu.Lock()
	passed := p.passLocked(w)
	p.endLocked(w)
	p.recycleLocked(w.job)
	p.slots--
	if passed {
		p.leadLocked()
	} else {
		p.advanceLocked()
	}
	p.nextLocked(w)
	p.mu.Unlock()
	if o != nil {
		o.finish(err)
	}
}

// passLocked passes the plain permits of the worker's task to the leader's, if that needs as many. It takes a third
// of the limiter's time that it takes to return and to take them, and to look whether there are more.
func (p *Pool) passLocked(w *worker) bool {
	j, n := p.leader, w.plain
	if w.ended || n == 0 || j == nil || j.asking || j.permits != n || !p.limiter.PassPlain(n) {
		return false
	}
	p.leader = nil
	p.startLocked(j)
	w.plain = 0
	return true
}

// endLocked counts the end of the worker's task, once, and returns its plain permits.
func (p *Pool) endLocked(w *worker) {
	if w.ended {
		return
	}
	w.ended = true
	if p.leader == w.job {
		p.leader, p.scouted = nil, false
	} else {
		p.running--
	}
	p.done++
	if w.plain > 0 {
		p.limiter.GivePlain(w.plain)
	}
	switch {
	case w.err == nil:
		return
	case w.panicked != nil:
		p.panicked++
	default:
		p.failed++
	}
	if w.owner == nil && (w.panicked == nil || p.onPanic == nil) {
		p.failures.add(w.err)
	}
}

// workLocked reports whether there is work for one more worker.
func (p *Pool) workLocked() bool {
	return p.ready.Len() > 0 || p.queueLimit > 0 && p.leader != nil && !p.scouted
}

// spawnLocked starts a worker if there is work for one and none is starting. It is called
// after every change that may add work.
func (p *Pool) spawnLocked() {
	if !p.starting && p.workLocked() && (p.maxWorkers == 0 || p.workers < p.maxWorkers) {
		p.starting = true
		p.workers++
		go p.newWorker()
	}
}

// nextLocked gives a worker its next task or the care of the leader, and starts another worker if there is work left.
func (p *Pool) nextLocked(w *worker) {
	*w = worker{}
	switch {
	case p.ready.Len() > 0:
		if w.job = p.ready.Pop(); p.limiter.Plain(w.permits) {
			w.plain = w.permits
		}
	case p.workLocked():
		w.scouts, p.scouted = true, true
	default:
		p.workers--
		p.idleLocked()
		return
	}
	p.spawnLocked()
}
