package proxy

import (
	"sync"
	"time"
)

// watch ends exchanges whose backend is silent for limit. All may be silent for as long, so they stand in a line in the
// order in which they were last heard of: one timer, for the first in line, does for all, and to join and to leave costs
// next to nothing. A timer for each would cost more than it takes itself: one that is the earliest of its processor
// wakes another thread.
type watch struct {
	limit time.Duration
	begun time.Time // what instants are told from: a distance is read in half the time

	mu          sync.Mutex
	first, last *exchange
	timer       *time.Timer // nil: none was needed yet
	armed       bool        // the timer runs, and ends no later than the first in line is due
}

func newWatch(limit time.Duration) *watch { return &watch{limit: limit, begun: time.Now()} }

// look ends the exchanges that are due. It runs when the timer ends.
func (w *watch) look() {
	var due []*exchange
	w.mu.Lock()
	now := time.Since(w.begun)
	for w.first != nil && now-w.first.since >= w.limit {
		x := w.first
		x.leaveLocked()
		x.silent = true
		due = append(due, x)
	}
	if w.armed = w.first != nil; w.armed {
		w.timer.Reset(w.limit - (now - w.first.since))
	}
	w.mu.Unlock()
	for _, x := range due {
		x.cancel()
	}
}

func (w *watch) armLocked() {
	switch {
	case w.armed:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(w.limit, w.look)
	default:
		w.timer.Reset(w.limit)
	}
	w.armed = true
}

// exchange is a request to a backend, and its answer. It is in its watch's line while it is the backend's turn.
type exchange struct {
	watch  *watch
	cancel func() // ends it; called once the watch is unlocked

	// All of these are guarded by watch.mu.
	client        int  // for how many things the client is waited for: more of the request, room for more of the answer
	silent        bool // the watch has ended it
	waiting       bool // it is in line
	since         time.Duration
	before, after *exchange
}

// seeks is when it looks for a connection, which has limits of its own.
func (x *exchange) seeks() {
	x.watch.mu.Lock()
	defer x.watch.mu.Unlock()
	x.leaveLocked()
}

// goesOn is when something was sent, or has come. The time of the backend begins anew, if it is its turn.
func (x *exchange) goesOn() {
	x.watch.mu.Lock()
	defer x.watch.mu.Unlock()
	x.joinLocked()
}

// toClient is when the client is waited for. It reports whether the watch has ended x.
func (x *exchange) toClient() (silent bool) {
	x.watch.mu.Lock()
	defer x.watch.mu.Unlock()
	x.client++
	x.leaveLocked()
	return x.silent
}

// toBackend undoes one toClient.
func (x *exchange) toBackend() {
	x.watch.mu.Lock()
	defer x.watch.mu.Unlock()
	x.client--
	x.joinLocked()
}

// joinLocked puts x at the end of the line if it is the backend's turn.
func (x *exchange) joinLocked() {
	x.leaveLocked()
	if x.client > 0 || x.silent {
		return
	}
	w := x.watch
	x.waiting, x.since, x.before = true, time.Since(w.begun), w.last
	if x.before == nil {
		w.first = x
	} else {
		x.before.after = x
	}
	w.last = x
	w.armLocked()
}

func (x *exchange) leaveLocked() {
	if !x.waiting {
		return
	}
	w := x.watch
	if x.before == nil {
		w.first = x.after
	} else {
		x.before.after = x.after
	}
	if x.after == nil {
		w.last = x.before
	} else {
		x.after.before = x.before
	}
	x.waiting, x.before, x.after = false, nil, nil
}
