//go:build unix

package run

import (
	"os"
	"syscall"
)

// jobSignals change how many jobs run at once, as those of xargs do.
var jobSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}

func jobsChange(s os.Signal) (by int, ok bool) {
	switch s {
	case syscall.SIGUSR1:
		return 1, true
	case syscall.SIGUSR2:
		return -1, true
	}
	return 0, false
}
