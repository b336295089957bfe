//go:build unix

package group

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// Foreground is like Own, but for a program that shares this one's stdin: if stdin is a terminal whose
// foreground this process is, the program's group takes its place. back gives the place back, once the
// program has ended.
func Foreground() (attr *syscall.SysProcAttr, back func()) {
	attr = Own()
	tty := int(os.Stdin.Fd())
	own, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	if !cli.IsTerminal(os.Stdin) || err != nil || own != unix.Getpgrp() {
		return attr, func() {}
	}
	attr.Foreground, attr.Ctty = true, tty
	return attr, func() {
		signal.Ignore(syscall.SIGTTOU) // who is in the background is stopped for this
		_ = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, own)
		signal.Reset(syscall.SIGTTOU)
	}
}
