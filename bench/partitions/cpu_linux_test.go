package partitions

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns how long the calling thread has been running on a processor. Getrusage would
// count ticks.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
