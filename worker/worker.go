package worker

import "github.com/sluice-go/sluice/core"

// state is what a worker is at. Each has the method that leads to the next.
//
//	  start
//	    |
//	    v    the head of the queue has no permits
//	scouting -------------------> asking
//	  ^ | \                        |  |
//	  | |  \ a task with its lease |  | refused
//	  | |   +----> running <-------+  |
//	  | |             |  ^            |
//	  | |     returns |  | the next   |
//	  | |             v  | task       |
//	  | |           counting         |
//	  | |             |               |
//	  | |     a lease |               |
//	  | |             v               v
//	  | |         releasing -----> telling (OnPanic, of a task that panicked)
//	  | |             |               |
//	  | |             v               |
//	  | +-> gone   settling <---------+
//	  |               |
//	  +---------------+  or running, or asking, or gone
//
// The code of others runs in asking, running, releasing and telling alone, with no lock
// held, and may panic or exit there.
type state uint8

const (
	scouting  state = iota // without a task, looks for one: is the scout, but for a moment
	asking                 // has the queue's turn, and asks the limiter for its task's lease
	running                // runs its task
	counting               // its task has ended, and is to be counted
	releasing              // its task is counted, and its lease is to be given back
	telling                // its lease is back, and OnPanic is to be told
	settling               // the Do or Map that waits is to be told
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

// goOn has the worker go on until it is gone, or its goroutine has to end.
func (p *Pool) goOn(w *worker) {
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
		if !again {
			next := *w
			go p.goOn(&next) // the goroutine exits
		}
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
