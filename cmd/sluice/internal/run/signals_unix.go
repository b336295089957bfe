//go:build unix

package run

import (
	"os"
	"syscall"
)

// jobSignals are about the jobs that run.
var jobSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGCONT}

// jobsChange returns how many more jobs may run at once after a signal, as xargs has it.
func jobsChange(s os.Signal) (by int, ok bool) {
	switch s {
	case syscall.SIGUSR1:
		return 1, true
	case syscall.SIGUSR2:
		return -1, true
	}
	return 0, false
}

// suspend stops the jobs and this process when a person presses Ctrl-Z, and lets the jobs go on when this process does:
// they are in groups of their own, which a terminal and a shell do not see. It reports whether s is about that.
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
