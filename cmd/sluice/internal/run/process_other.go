//go:build !unix

package run

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// end ends the program; there are no groups here.
func (p *process) end() { _ = p.p.Kill() }

func ending(s *os.ProcessState) (status, signal int) { return s.ExitCode(), 0 }
