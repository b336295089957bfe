package worker

import (
	"errors"
	"runtime"
	"runtime/debug"

	"github.com/sluice-go/sluice/core"
)

// lookouts is how often a worker without a task gives way to others and looks again
// before it ends. While work flows, that is cheaper than a new goroutine; a worker that
// blocked would outlast the pool's rest.
const lookouts = 16

// work is a worker: a goroutine that was started to search.
func (p *Pool) work() {
	j := job{searching: true}
	for p.serve(&j) {
	}
}

// serve runs tasks until there is none, and reports whether to call it again: after a
// panic, whose task is then the next turn's to end.
func (p *Pool) serve(j *job) (again bool) {
	// One deferred call serves many tasks.
	defer func() {
		if j.runs {
			again = p.rescue(j, recover())
		}
	}()
	for p.turn(j) {
		j.runs = true
		j.err = j.task(j.context(p))
		j.runs = false
	}
	return false
}

// rescue contains a task's panic, or its Goexit if there is no value. It reports whether
// the worker goes on: a goroutine that exits is replaced.
func (p *Pool) rescue(j *job, value any) (goesOn bool) {
	j.runs = false
	if value == nil {
		j.err = ErrGoexit
		go p.replace(*j)
		return false
	}
	stack := debug.Stack()
	j.err, j.panicked = &PanicError{Value: value, Stack: stack}, true
	if p.onPanic == nil {
		return true
	}
	// The task has ended, and OnPanic may take its time; but the goroutine is not free.
	p.mu.Lock()
	p.endLocked(j)
	p.reserved++
	p.mu.Unlock()
	j.lease.Release()
	told := false
	defer func() {
		v := recover()
		p.mu.Lock()
		p.reserved--
		if p.queue == 0 {
			p.grantLocked()
		}
		if v != nil {
			p.failures.add(&PanicError{Value: v, Stack: debug.Stack()}) // nobody else can be told
		}
		p.unlockAndSearch()
		j.settle()
		*j = job{}
		goesOn = told || v != nil
		if !goesOn {
			go p.replace(*j) // OnPanic called runtime.Goexit
		}
	}()
	p.onPanic(value, stack)
	told = true
	return true
}

// replace goes on where another goroutine had to end.
func (p *Pool) replace(j job) {
	for p.serve(&j) {
	}
}

// turn ends the task that the worker has run, if any, and gets it the next. It reports
// false if the worker is to end.
//
// The common cases are that one which is ready follows, or one from the queue that is like
// it.
func (p *Pool) turn(j *job) bool {
	if j.task == nil {
		return p.turnSlow(j)
	}
	if j.err != nil || j.call != nil {
		return p.turnSlow(j)
	}
	// A task is counted as ended before its lease is back, so that never more run than
	// there are leases; Wait sees that the worker has not left yet.
	p.mu.Lock()
	if p.ready.n > 0 && p.blocked.first == nil {
		p.running--
		p.held -= j.weight()
		p.done++
		lease := j.lease
		p.takeReadyLocked(j)
		p.unlockAndSearch()
		lease.Release()
		return true
	}
	if p.queued == 0 || p.ready.n > 0 || p.leading || p.careful() || p.held > p.limit.Load() {
		return p.turnSlowLocked(j)
	}
	e := p.waiting.front()
	if e.permits != j.permits || e.call != nil {
		return p.turnSlowLocked(j)
	}
	// It takes the place of the other: as many run, with the same weight.
	j.task = e.task
	p.waiting.pop()
	p.queued--
	p.done++
	if p.blocked.first != nil {
		p.grantLocked()
	}
	p.unlockAndSearch()
	j.lease.Release()
	if j.lease = p.limiter.TryAcquire(j.permits); j.lease.Acquired() {
		return true
	}
	if p.admit(j, likely) {
		return true
	}
	return p.turnSlow(j)
}

func (p *Pool) turnSlow(j *job) bool {
	p.mu.Lock()
	return p.turnSlowLocked(j)
}

// turnSlowLocked is turn in all cases. The mutex is held before, not after.
func (p *Pool) turnSlowLocked(j *job) bool {
	if j.task != nil {
		p.endLocked(j)
		p.mu.Unlock()
		j.lease.Release()
		j.settle()
		*j = job{searching: j.searching}
		p.mu.Lock()
	}
	for looks := 0; ; looks++ {
		found := p.nextLocked(j, looks)
		if found > later {
			if j.searching {
				j.searching, p.searching = false, false
			}
			p.unlockAndSearch()
			if found == granted || p.admit(j, found) {
				return true
			}
			looks = -1
		} else {
			if !p.stayLocked(j, found, looks) {
				p.leaveLocked(j)
				p.mu.Unlock()
				return false
			}
			p.mu.Unlock()
			runtime.Gosched()
		}
		p.mu.Lock()
	}
}

// find is what a worker finds when it looks for work.
type find uint8

const (
	nothing find = iota
	later        // a task waits for permits, all of which the pool's own tasks hold
	granted      // a task with its lease
	likely       // a task for which there should be permits
	leader       // a task whose permits the worker is to wait for
)

// nextLocked takes the next task, if there is one.
func (p *Pool) nextLocked(j *job, looks int) find {
	if p.ready.n > 0 {
		p.takeReadyLocked(j)
		return granted
	}
	if p.leading || p.queued == 0 || !p.freeLocked() {
		return nothing
	}
	for p.waiting.front().gone() {
		p.waiting.pop()
		p.dropped--
	}
	e := *p.waiting.front()
	fits := p.hopefulLocked(e.permits)
	if !fits && looks < lookouts && !p.closed.Load() {
		// Short tasks will be back before a wait in the limiter would have begun.
		return later
	}
	p.waiting.pop()
	if e.call != nil {
		e.call.queued = false
	}
	j.entry = e
	if fits && !p.careful() {
		p.admittedLocked(&e)
		return likely
	}
	p.leading = true
	p.reserved++
	return leader
}

func (p *Pool) takeReadyLocked(j *job) {
	j.admitted = *p.ready.front()
	p.ready.pop()
}

// admittedLocked counts a queued task as one that runs.
func (p *Pool) admittedLocked(e *entry) {
	p.queued--
	p.running++
	p.held += e.weight()
	p.grantLocked()
}

// admit gets the worker's task its lease. It reports false if there is none to run.
func (p *Pool) admit(j *job, found find) bool {
	if found == likely {
		if j.lease = p.limiter.TryAcquire(j.permits); j.lease.Acquired() {
			return true
		}
		if !p.lead(j) {
			return false
		}
	}
	lease, err := p.persist(j.context(p), j.permits)
	if !p.rated {
		p.look()
	}
	if p.ctx.Err() != nil && err == nil {
		// Close cancelled the task before it started, whatever its caller's context knows of it.
		p.undo(lease)
		err = ErrClosed
	}
	p.mu.Lock()
	p.leading = false
	p.reserved--
	if err == nil {
		p.calm()
		j.lease = lease
		p.admittedLocked(&j.entry)
		p.unlockAndSearch()
		return true
	}
	if p.ctx.Err() != nil && !errors.Is(err, core.ErrRejected) {
		err = ErrClosed
	}
	p.queued--
	p.failLocked(j.call, err)
	p.grantLocked()
	p.unlockAndSearch()
	if j.call != nil {
		j.call.settle(err)
	}
	*j = job{searching: j.searching}
	return false
}

// lead makes a worker that found no permits where it should have the one that waits for
// them; if there is one, its task goes back to the queue.
func (p *Pool) lead(j *job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caution.Store(cautious)
	p.running--
	p.held -= j.weight()
	p.queued++
	if !p.leading {
		p.leading = true
		p.reserved++
		return true
	}
	if j.call != nil {
		j.call.queued = true
	}
	p.waiting.unpop(j.entry)
	*j = job{searching: j.searching}
	return false
}

// endLocked counts a task that has ended, and lets those go on whom it held up.
func (p *Pool) endLocked(j *job) {
	p.running--
	p.held -= j.weight()
	p.done++
	if j.err != nil {
		if j.panicked {
			p.panicked++
		} else {
			p.failed++
		}
		if j.call == nil && (!j.panicked || p.onPanic == nil) {
			p.failures.add(j.err)
		}
	}
	if p.queue == 0 {
		p.grantLocked()
	}
}

// stayLocked reports whether a worker that found nothing looks again.
func (p *Pool) stayLocked(j *job, found find, looks int) bool {
	if found == nothing && (looks >= lookouts || p.idlers.first != nil || p.closed.Load()) {
		return false
	}
	if !j.searching {
		if p.searching {
			return false
		}
		j.searching, p.searching = true, true
	}
	return true
}

// leaveLocked ends a worker.
func (p *Pool) leaveLocked(j *job) {
	if j.searching {
		p.searching = false
	}
	p.workers--
	p.restLocked()
}

// settle tells the caller who waits for the task that it has ended.
func (j *job) settle() {
	if j.call != nil {
		j.call.settle(j.err)
	}
}
