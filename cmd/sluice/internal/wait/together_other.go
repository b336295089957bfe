//go:build !linux

package wait

import "syscall"

// killWithParent does nothing: the system cannot do it.
func killWithParent(*syscall.SysProcAttr) {}
