package worker

import "github.com/sluice-go/sluice/core"

// state is what a worker is at. Each has a method, which sets the next:
//
//	scouting:   looks for a task, and gives way; then scouting, asking, running or gone
//	asking:     asks the limiter for a lease; then running, or settling if refused
//	running:    runs its task; then counting
//	counting:   the task has ended, and is counted; then releasing or, if it held plain
//	            permits, what comes after that
//	releasing:  gives the lease back; then asking or running, if it has the next task
//	            in hand; or telling, or settling
//	telling:    calls OnPanic; then settling
//	settling:   tells the Do or Map that waits; then as from scouting
//	gone
//
// The code of others runs in asking, running, releasing and telling alone, with no lock
// held, and may panic or exit there.
type state uint8

const (
	scouting state = iota
	asking
	running
	counting
	releasing
	telling
	settling
	gone
)

// worker is a goroutine of a pool. Its fields are its own.
type worker struct {
	admitted // the task, if it has one

	state    state
	scout    bool  // it is the one that Pool.scouted tells of
	looks    int   // how often it has looked for a task in vain
	ran      bool  // the task was begun; set while it is running
	panicked bool  // and panicked
	err      error // how it ended

	owed core.Lease // in releasing: of the task that has ended; the worker may have the next
	next state      // in releasing: what comes then
}

// work is a goroutine that was started to scout.
func (p *Pool) work() {
	w := worker{scout: true}
	p.goOn(&w)
}

// goOn has the worker go on until it is gone, in a goroutine of its own if this one exits.
// After a panic that was recovered it may exit, too: one that came while it was exiting.
func (p *Pool) goOn(w *worker) {
	defer func() {
		if w.state != gone {
			next := *w
			go p.goOn(&next)
		}
	}()
	for p.run(w) {
	}
}

// run takes the worker from state to state. It reports whether to call it again: after a
// panic.
func (p *Pool) run(w *worker) (again bool) {
	defer func() {
		if w.state == gone {
			return
		}
		value := recover()
		again = value != nil
		p.rescue(w, value)
	}()
	for w.state != gone {
		switch w.state {
		case scouting:
			p.scouts(w)
		case asking:
			p.asks(w)
		case running:
			p.runs(w)
		case counting:
			p.ends(w)
		case releasing:
			p.releases(w)
		case telling:
			p.tells(w)
		case settling:
			p.settles(w)
		}
	}
	return false
}

// rescue contains a panic in the code of others, or its runtime.Goexit if there is no value.
func (p *Pool) rescue(w *worker, value any) {
	err := ErrGoexit
	if value != nil {
		culprit := map[state]string{asking: "limiter", releasing: "limiter", telling: "OnPanic"}[w.state]
		err = caught(value, culprit)
	}
	switch w.state {
	case asking:
		p.refused(w, err)
	case running:
		w.err, w.panicked, w.state = err, value != nil, counting
	case releasing:
		if w.next == settling && w.call != nil && w.err == nil {
			w.err = err // of a Do or Map whose function had none
		} else {
			p.complain(err)
		}
		w.state = w.next
	case telling:
		w.state = settling
		if value != nil {
			p.complain(err)
		}
	}
}

// complain keeps an error that nobody but a Wait can be told of.
func (p *Pool) complain(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures.add(err)
}
