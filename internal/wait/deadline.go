package wait

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Deadline ends the calls on one side of a connection: at a given time that can be moved, as the
// SetDeadline methods of a net.Conn require, or permanently. A stream without deadlines uses only its
// Close. Call [Deadline.Start] before anything else. A Deadline is safe for concurrent use.
type Deadline struct {
	changed func(expired bool)     // may be nil
	source  atomic.Pointer[Source] // ends the calls; replaced when a deadline that has passed is moved

	mu     sync.Mutex // guards the fields below, and the replacement of the source; before the locks that changed takes
	timer  *time.Timer
	closed bool
}

// Start makes the deadline ready. Unless changed is nil, it is called with true when the deadline passes,
// before the calls end, and with false when a deadline that has passed is moved. The deadline's mutex is
// held, so changed must not call the deadline.
func (d *Deadline) Start(changed func(expired bool)) {
	d.changed = changed
	d.source.Store(new(Source))
}

// Source returns the source that ends the calls that start now: with [os.ErrDeadlineExceeded], or with the
// cause given to Close. It returns nil before Start.
func (d *Deadline) Source() *Source { return d.source.Load() }

// Set moves the deadline to t; the zero time removes it. A call in progress obeys the new deadline, unless
// the old one has ended it. After Close, Set does nothing.
func (d *Deadline) Set(t time.Time) {
	cancel(d.set(t), os.ErrDeadlineExceeded)
}

// set is like Set, but without the end of the contexts of calls whose deadline has passed.
func (d *Deadline) set(t time.Time) []ender {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.stopLocked()
	left := time.Until(t)
	if !t.IsZero() && left <= 0 {
		return d.expireLocked()
	}
	if d.Source().Cause() != nil {
		d.source.Store(new(Source))
		d.notifyLocked(false)
	}
	if !t.IsZero() {
		var own *time.Timer
		own = time.AfterFunc(left, func() { cancel(d.expire(&own), os.ErrDeadlineExceeded) })
		d.timer = own
	}
	return nil
}

// expire is called by a timer.
func (d *Deadline) expire(own **time.Timer) []ender {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != *own {
		return nil // the deadline was moved while this was about to run
	}
	return d.expireLocked()
}

// Close ends all calls with this cause, including later ones, and stops the timer. Only the first call of
// Close has an effect; it returns true.
func (d *Deadline) Close(cause error) bool {
	calls, ok := d.close(cause)
	cancel(calls, cause)
	return ok
}

func (d *Deadline) close(cause error) ([]ender, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, false
	}
	d.closed = true
	d.stopLocked()
	calls, ok := d.Source().end(cause)
	if !ok { // the deadline has passed
		closed := new(Source)
		closed.End(cause)
		d.source.Store(closed)
	}
	return calls, true
}

// expireLocked returns the calls to cancel without the mutex.
func (d *Deadline) expireLocked() []ender {
	d.notifyLocked(true)
	calls, _ := d.Source().end(os.ErrDeadlineExceeded)
	return calls
}

func (d *Deadline) notifyLocked(expired bool) {
	if d.changed != nil {
		d.changed(expired)
	}
}

func (d *Deadline) stopLocked() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
