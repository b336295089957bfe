//go:build !unix

// Package group ends programs together with all that they have started; here, where there are no groups, the program alone.
package group

import (
	"os"
	"syscall"
)

// Own changes nothing.
func Own() *syscall.SysProcAttr { return nil }

// End ends the program.
func End(p *os.Process) { _ = p.Kill() }

// Signal ends the program, whatever the signal.
func Signal(p *os.Process, _ os.Signal) { _ = p.Kill() }

// Ending returns a program's exit status.
func Ending(s *os.ProcessState) (status, signal int) { return s.ExitCode(), 0 }
