//go:build unix

package throttle

import (
	"os"
	"syscall"
)

const sigpipe = syscall.SIGPIPE

// rateSignals change the rate.
var rateSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}

// rateFactor returns by how much a signal changes the rate.
func rateFactor(s os.Signal) (factor float64, ok bool) {
	switch s {
	case syscall.SIGUSR1:
		return 2, true
	case syscall.SIGUSR2:
		return 0.5, true
	}
	return 0, false
}
