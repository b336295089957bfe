//go:build !unix

package throttle

import (
	"os"
	"syscall"

	"github.com/sluice-go/sluice/spec"
)

const sigpipe = syscall.SIGPIPE // never sent

var rateSignals []os.Signal

func rateChange(os.Signal) func(spec.Limit) spec.Limit { return nil }
