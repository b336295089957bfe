//go:build unix

package run

import (
	"os"
	"syscall"
	"time"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

const (
	termGrace = 5 * time.Second // how long a group that was asked to end may take
	killGrace = time.Second     // how long one may take to vanish that was killed; more only if nobody reaps
)

// end asks the whole group to end, and kills it if it has not within the grace. It returns when the group is gone.
func (p *process) end() {
	group := -p.p.Pid
	if syscall.Kill(group, syscall.SIGTERM) != nil {
		return // it is gone
	}
	_ = syscall.Kill(group, syscall.SIGCONT) // one that is stopped would not hear of it
	if !gone(group, termGrace) {
		_ = syscall.Kill(group, syscall.SIGKILL)
		gone(group, killGrace)
	}
}

// gone waits until the group has no process left, at most for d, and reports whether that is so.
func gone(group int, d time.Duration) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		if syscall.Kill(group, 0) != nil {
			return true
		}
		select {
		case <-look.C:
		case <-over.C:
			return false
		}
	}
}

// ending returns a program's exit status, or the signal that ended it.
func ending(s *os.ProcessState) (status, signal int) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 0, int(w.Signal())
	}
	return s.ExitCode(), 0
}
