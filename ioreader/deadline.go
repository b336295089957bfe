package ioreader

import (
	"os"
	"sync"
	"time"
)

// deadline ends the calls on one side of a connection at an instant that can be moved.
type deadline struct {
	side  *side
	mu    sync.Mutex // guards what follows, and the replacing of the side's source
	timer *time.Timer
	done  bool // the connection is closed
}

// set moves the deadline; the zero time takes it away. A call that waits goes by the new
// one, unless the old has ended it.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return
	}
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	e := d.side.source.Load()
	if e.Cause() != nil {
		e = d.side.reopen()
	}
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		e.End(os.ErrDeadlineExceeded)
		return
	}
	var own *time.Timer
	own = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timer == own { // else it was moved while this came to run
			e.End(os.ErrDeadlineExceeded)
		}
	})
	d.timer = own
}

// close ends all calls for good.
func (d *deadline) close() {
	d.mu.Lock()
	d.done = true
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if !d.side.source.Load().End(errConnClosed) {
		d.side.reopen().End(errConnClosed)
	}
	d.mu.Unlock()
	d.side.meter.Clear()
}
