//go:build unix

package run

import (
	"os"
	"syscall"
)

// suspendSignals come when a person presses Ctrl-Z, and when this process continues.
var suspendSignals = []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}

// suspend stops the jobs and this process, or lets the jobs continue: they are in groups of their own, which a terminal and
// a shell do not see. It reports whether s is about that.
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
