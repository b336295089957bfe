//go:build unix

package run

import (
	"os"
	"syscall"
)

// suspendSignals arrive when the user presses Ctrl-Z, and when this process continues.
var suspendSignals = []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}

// suspend stops the jobs and this process, or lets the jobs continue. The jobs are in groups of their own, so the terminal
// and the shell do not do that. suspend reports whether s is one of suspendSignals.
func (r *runner) suspend(s os.Signal) bool {
	switch s {
	case syscall.SIGTSTP:
		r.running.signal(syscall.SIGTSTP)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case syscall.SIGCONT:
		r.running.signal(syscall.SIGCONT)
	default:
		return false
	}
	return true
}
