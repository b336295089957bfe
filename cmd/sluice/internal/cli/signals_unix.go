//go:build unix

package cli

import (
	"os"
	"syscall"
)

// UserSignal1 asks for more: a higher rate.
var UserSignal1 os.Signal = syscall.SIGUSR1

// UserSignal2 asks for less.
var UserSignal2 os.Signal = syscall.SIGUSR2
