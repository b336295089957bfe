package worker

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
)

// state is what a worker does next. A new worker looks for a task, and so does a worker whose
// task has ended. It is then leading, running or gone:
//
//	look for a task -> leading -> running -> ending [-> notifying] -> look for a task
//	                -> running -> ending [-> notifying] -> look for a task
//	                -> gone
//
// A leader that gets no lease continues with ending. A task, OnPanic and the limiter may panic or
// call runtime.Goexit, so the next state is set before they are called.
type state uint8

const (
	gone      state = iota
	leading         // asks the limiter for the lease of its task
	running         // calls its task
	ending          // gives the lease back, counts the task and looks for the next
	notifying       // calls OnPanic
)

// worker is a goroutine of a pool. Only that goroutine uses its fields.
type worker struct {
	*job // its task

	state    state
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
			p.finish(w)
		case notifying:
			p.notify(w)
		}
	}
}

// spawnLocked starts a worker if there is work for one and none is starting. It is called
// after every change that may add work.
func (p *Pool) spawnLocked() {
	if p.ready.Len() > 0 && !p.starting && (p.most == 0 || p.workers < p.most) {
		p.starting = true
		p.workers++
		go p.begin()
	}
}

// nextLocked gives a worker its next task and state, and starts another worker if there is work
// left. The worker is gone if there is no task for it.
func (p *Pool) nextLocked(w *worker) {
	*w = worker{}
	p.advanceLocked()
	if p.ready.Len() == 0 {
		p.workers--
		p.idleLocked()
		return
	}
	w.job, w.state = p.ready.Pop(), running
	if w.leads {
		w.state = leading
	}
	p.spawnLocked()
}

// lead waits for the lease of the leader's task.
func (p *Pool) lead(w *worker) {
	w.state, w.err = ending, ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			w.err = caught(v, "limiter")
		}
	}()
	ctx := context.Context(w.ctx)
	if w.order == core.FairShare {
		ctx = core.WithFlow(ctx, w.flow)
	}
	h, err := p.limiter.TakeWaiting(ctx, nil, w.permits)
	w.hold, w.err = h, w.ctx.Explain(err)
	if err != nil {
		return
	}
	p.mu.Lock()
	late := p.phase == cancelled
	if !late {
		p.endLeadLocked(w.job)
		p.running++
		w.state = running
		p.advanceLocked()
		p.spawnLocked()
	}
	p.mu.Unlock()
	if late {
		p.life.End(ErrClosed) // before the task's caller sees the error
		w.err = ErrClosed
	}
}

// run calls the task, unless the context of its Do, Map or Group has ended.
func (p *Pool) run(w *worker) {
	w.state, w.err = ending, ErrGoexit
	if !w.submitted() {
		if err := reasonToEnd(w.ctx); err != nil {
			w.err = err
			return
		}
	}
	w.ran = true
	defer w.rescue()
	w.err = w.task(w.ctx)
}

// rescue is deferred. It turns a panic of the task into the task's error.
func (w *worker) rescue() {
	if v := recover(); v != nil { //nolint:revive // rescue itself is deferred
		w.err, w.panicked = caught(v, "task"), true
	}
}

// finish gives the lease back, counts the task and takes the next one. If the task holds plain
// permits, all of this takes one lock.
func (p *Pool) finish(w *worker) {
	if w.err != nil && w.group != nil {
		w.group.fail(w.err) // before the permits are free, so that no other task of the group starts
	}
	switch {
	case w.hold.Permits > 0: // countEndLocked gives them back
	case w.ran:
		p.limiter.Release(w.hold)
	default:
		p.limiter.Refund(w.hold)
	}
	p.mu.Lock()
	p.countEndLocked(w)
	if w.panicked && p.onPanic != nil {
		w.state = notifying
		p.advanceLocked()
		p.spawnLocked()
		p.mu.Unlock()
		return
	}
	e, err := w.entry, w.err
	p.continueLocked(w)
	p.mu.Unlock()
	e.finish(err)
}

// continueLocked gives up the slot of the worker's task and takes the next task.
func (p *Pool) continueLocked(w *worker) {
	p.recycleLocked(w.job)
	p.slots--
	p.nextLocked(w)
}

// countEndLocked counts the end of the worker's task, and gives back its plain permits.
func (p *Pool) countEndLocked(w *worker) {
	if w.leads {
		p.endLeadLocked(w.job)
	} else {
		p.running--
	}
	p.done++
	if w.hold.Permits > 0 {
		p.limiter.GivePlain(w.hold.Permits)
	}
	if w.err == nil {
		return
	}
	if w.panicked {
		p.panicked++
	} else {
		p.failed++
	}
	if w.submitted() && (!w.panicked || p.onPanic == nil) {
		p.failures.add(w.err)
	}
}

// notify calls OnPanic, once, and takes the next task.
func (p *Pool) notify(w *worker) {
	var panicked *PanicError
	if w.panicked && errors.As(w.err, &panicked) {
		w.panicked = false
		p.callOnPanic(panicked)
	}
	e, err := w.entry, w.err
	p.mu.Lock()
	p.continueLocked(w)
	p.mu.Unlock()
	e.finish(err)
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
