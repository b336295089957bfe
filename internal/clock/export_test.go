package clock

import (
	"sync/atomic"
	"time"
)

var ahead atomic.Int64

// InjectWall has SetWall set the clock on the wall. Call it before any test.
func InjectWall() {
	Both = func() (unix, reading int64) {
		t := time.Now()
		return t.UnixNano() + ahead.Load(), int64(t.Sub(start))
	}
}

// SetWall sets the clock on the wall: it goes that far ahead of the true time.
func SetWall(d time.Duration) { ahead.Store(int64(d)) }
