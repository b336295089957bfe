//go:build !unix

package throttle

import (
	"os"
	"syscall"
)

const sigpipe = syscall.SIGPIPE // never sent

var rateSignals []os.Signal

func rateFactor(os.Signal) (factor float64, ok bool) { return 0, false }
