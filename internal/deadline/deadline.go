// Package deadline ends the calls on one side of a connection: at an instant that can be
// moved, as the SetDeadline methods of a net.Conn demand, or for good.
package deadline

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/linked"
)

// Deadline is the deadline of one side. It is ready after [Deadline.Start], and safe for
// concurrent use. A side without a deadline has use for its Close.
type Deadline struct {
	changed func(expired bool)            // nil: nobody wants to know
	source  atomic.Pointer[linked.Source] // ends the calls; replaced when a deadline that has passed is moved

	mu     sync.Mutex // guards what follows, and the replacing of the source
	timer  *time.Timer
	closed bool
}

// Start makes the deadline ready. The callback changed, unless it is nil, is told when the
// deadline has passed, and when it is moved after that, in this order; a mutex is held.
func (d *Deadline) Start(changed func(expired bool)) {
	d.changed = changed
	d.source.Store(new(linked.Source))
}

// Source returns what ends the calls that begin now: with [os.ErrDeadlineExceeded] or the
// cause given to Close. It returns nil before Start.
func (d *Deadline) Source() *linked.Source { return d.source.Load() }

// Set moves the deadline to t; the zero time removes it. A call in progress obeys the new
// deadline, unless the old one has ended it. After Close, Set does nothing.
func (d *Deadline) Set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.stopLocked()
	left := time.Until(t)
	if !t.IsZero() && left <= 0 {
		d.expireLocked()
		return
	}
	if d.Source().Cause() != nil {
		d.source.Store(new(linked.Source))
		d.tellLocked(false)
	}
	if t.IsZero() {
		return
	}
	var own *time.Timer
	own = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timer == own { // else the deadline was moved while this was about to run
			d.expireLocked()
		}
	})
	d.timer = own
}

// Close ends all calls with this cause, those to come too, and stops the timer. The first
// Close decides, and reports true.
func (d *Deadline) Close(cause error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.closed = true
	d.stopLocked()
	if !d.Source().End(cause) { // a deadline has passed
		over := new(linked.Source)
		over.End(cause)
		d.source.Store(over)
	}
	return true
}

func (d *Deadline) expireLocked() {
	d.tellLocked(true)
	d.Source().End(os.ErrDeadlineExceeded)
}

func (d *Deadline) tellLocked(expired bool) {
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
