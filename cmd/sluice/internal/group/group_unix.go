//go:build unix

// Package group ends programs together with all that they have started.
package group

import (
	"os"
	"syscall"
	"time"
)

// Own puts a program into a process group of its own.
func Own() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

const (
	termGrace = 5 * time.Second // how long a group that was asked to end may take
	killGrace = time.Second     // how long one may take to vanish that was killed; more only if no process reaps it
)

// End asks the whole group of a program to end, and kills it if it has not within the grace. It returns when the group
// is gone.
func End(p *os.Process) {
	group := -p.Pid
	if syscall.Kill(group, syscall.SIGTERM) != nil {
		return // it is gone
	}
	_ = syscall.Kill(group, syscall.SIGCONT) // one that is stopped would not hear of it
	if !gone(group, termGrace) {
		_ = syscall.Kill(group, syscall.SIGKILL)
		gone(group, killGrace)
	}
}

// Signal sends a signal to the whole group of a program.
func Signal(p *os.Process, s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-p.Pid, n)
	}
}

// Looks at whether a group is gone: signals tell immediately of one that was reaped, and the others are looked at closely,
// which costs more.
const (
	lookEvery   = 5 * time.Millisecond
	closelyEach = 10 // looks
)

// gone waits until the group has no living process left, at most for d, and reports whether that is so.
func gone(group int, d time.Duration) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for n := 1; ; n++ {
		if syscall.Kill(group, 0) != nil || n%closelyEach == 0 && !living(-group) {
			return true
		}
		select {
		case <-look.C:
		case <-over.C:
			return false
		}
	}
}

// Ending returns a program's exit status, or the signal that ended it.
func Ending(s *os.ProcessState) (status, signal int) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 0, int(w.Signal())
	}
	return s.ExitCode(), 0
}
