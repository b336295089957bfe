//go:build unix

package throttle

import (
	"os"
	"syscall"

	"github.com/sluice-go/sluice/spec"
)

const sigpipe = syscall.SIGPIPE

// rateSignals change the rate.
var rateSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}

// rateChange returns what a signal makes of the rate, nil if nothing.
func rateChange(s os.Signal) func(spec.Limit) spec.Limit {
	switch s {
	case syscall.SIGUSR1:
		return doubled
	case syscall.SIGUSR2:
		return halved
	}
	return nil
}
