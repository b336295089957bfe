package partitions

import (
	"syscall"
	"time"
)

// threadTime returns how long the calling thread has been running on a processor.
func threadTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
