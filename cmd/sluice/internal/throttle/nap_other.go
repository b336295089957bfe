//go:build !linux

package throttle

import "time"

// newNap returns what one goroutine sleeps by.
func newNap() func(time.Duration) { return time.Sleep }
