package worker

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
)

// state is what a worker does next. A new worker looks for a task, and so does a worker whose
// task has ended. It is then leading, running or gone:
//
//	look for a task -> leading -> running -> ending [-> notifying] -> look for a task
//	                -> running -> ending [-> notifying] -> look for a task
//	                -> gone
//
// A leader that gets no lease goes on to ending. User code may panic or call runtime.Goexit,
// so each method sets the next state before it calls user code.
type state uint8

const (
	gone      state = iota
	leading         // asks the limiter for the lease of the task at the head of the queue
	running         // calls its task
	ending          // gives the lease back, counts the task and looks for the next
	notifying       // calls OnPanic
)

// worker is a goroutine of a pool. Only that goroutine uses its fields.
type worker struct {
	admitted // its task

	state    state
	leads    bool  // it is the leader
	ran      bool  // the task was called
	panicked bool  // the task panicked and OnPanic has not been called; err is or wraps a *PanicError
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

// loop runs the worker until it is gone. If user code calls runtime.Goexit, a new goroutine
// continues in the next state.
func (p *Pool) loop(w *worker) {
	defer func() {
		if w.state != gone {
			next := *w
			go p.loop(&next)
		}
	}()
	for w.state != gone {
		switch w.state {
		case leading:
			p.lead(w)
		case running:
			p.run(w)
		case ending:
			p.end(w)
		case notifying:
			p.notify(w)
		}
	}
}

// spawnLocked starts a worker if there is work for one and none is starting. It is called
// after every change that adds work or frees a place.
func (p *Pool) spawnLocked() {
	work := p.ready.n > 0 || !p.leading && p.queuedLocked() > 0 && p.freeLocked()
	if work && !p.starting && (p.most == 0 || p.workers < p.most) {
		p.starting = true
		p.workers++
		go p.begin()
	}
}

// nextLocked gives a worker its next task and state, and starts another worker if there is work
// left. The worker is gone if there is no task without a worker, another worker leads, or no
// place is free.
func (p *Pool) nextLocked(w *worker) {
	*w = worker{}
	switch {
	case p.ready.n > 0:
		w.admitted, w.state = p.ready.pop(), running
	case !p.leading && p.queuedLocked() > 0 && p.freeLocked():
		w.entry, _ = p.popLocked()
		p.running++
		p.places++
		w.plain = p.tryPlain(w.permits)
		w.leads = !w.plain
		w.state = running
		if w.leads {
			p.leading, w.state = true, leading
		}
		p.grantLocked()
	default:
		p.workers--
		p.restLocked()
		return
	}
	p.spawnLocked()
}

// lead waits for the lease of the leader's task.
func (p *Pool) lead(w *worker) {
	w.state, w.err = ending, ErrGoexit
	p.acquire(w)
	if w.err != nil {
		return
	}
	p.mu.Lock()
	late := p.phase == cancelled
	if !late {
		p.leading, w.leads = false, false
		w.state = running
		p.grantLocked()
		p.spawnLocked()
	}
	p.mu.Unlock()
	if late {
		p.life.End(ErrClosed) // before the task's caller sees the error
		w.err = ErrClosed
	}
}

// acquire gets the worker's task its lease, or sets the task's error.
func (p *Pool) acquire(w *worker) {
	defer w.rescue("limiter")
	lease, err := p.persist(p.context(w), w.permits)
	w.lease, w.plain = lease, err == nil && !lease.Acquired()
	if cause := p.life.Cause(); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	w.err = err
}

// context returns the context for the worker's task.
func (p *Pool) context(w *worker) context.Context {
	if w.call != nil {
		return w.call.ctx.Context
	}
	return p.tasks // which is replaced only while there is no worker
}

// run calls the task, unless the context of its Do, Map or Group has ended.
func (p *Pool) run(w *worker) {
	w.state, w.err = ending, ErrGoexit
	if w.call != nil {
		if err := w.call.givenUp(); err != nil {
			w.err = err
			return
		}
	}
	w.ran = true
	defer w.rescue("task")
	w.err = w.task(p.context(w))
}

// rescue is deferred. It turns a panic of user code into the task's error.
func (w *worker) rescue(culprit string) {
	if v := recover(); v != nil { //nolint:revive // rescue itself is deferred
		w.err = caught(v, culprit)
		w.panicked = w.ran
	}
}

// end gives the lease back, counts the task and takes the next one. If the task holds plain
// permits, all of this takes one lock.
func (p *Pool) end(w *worker) {
	if w.err != nil && w.call != nil && w.call.group != nil {
		w.call.group.fail(w.err) // before the permits are free, so that no other task of the group starts
	}
	if w.lease.Acquired() {
		p.release(w)
	}
	p.mu.Lock()
	p.countEndLocked(w)
	if w.panicked && p.onPanic != nil {
		w.state = notifying
		p.spawnLocked()
		p.mu.Unlock()
		return
	}
	call, err := w.call, w.err
	p.vacateLocked()
	p.nextLocked(w)
	p.mu.Unlock()
	if call != nil {
		call.settle(err)
	}
}

// countEndLocked counts the end of the worker's task, and gives back its plain permits.
func (p *Pool) countEndLocked(w *worker) {
	if w.leads {
		p.leading = false
		p.grantLocked()
	}
	p.running--
	p.done++
	if w.plain {
		p.plain.Give(w.permits)
	}
	if w.err == nil {
		return
	}
	if w.panicked {
		p.panicked++
	} else {
		p.failed++
	}
	if w.call == nil && (!w.panicked || p.onPanic == nil) {
		p.failures.add(w.err)
	}
}

// release gives the lease back. If that panics, the panic is added to the task's error.
func (p *Pool) release(w *worker) {
	lease := w.lease
	w.lease = core.Lease{}
	complaint := ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			complaint = caught(v, "limiter")
		}
		if complaint != nil {
			w.err = errors.Join(w.err, complaint)
		}
	}()
	if w.ran {
		lease.Release()
	} else {
		limiter.Refund(p.limiter, lease)
	}
	complaint = nil
}

// notify calls OnPanic, once, and takes the next task.
func (p *Pool) notify(w *worker) {
	var caught *PanicError
	if w.panicked && errors.As(w.err, &caught) {
		w.panicked = false
		p.callOnPanic(caught)
	}
	call, err := w.call, w.err
	p.mu.Lock()
	p.vacateLocked()
	p.nextLocked(w)
	p.mu.Unlock()
	if call != nil {
		call.settle(err)
	}
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
