//go:build !linux

package wait

import "syscall"

// dieTogether does nothing: there is no such way here.
func dieTogether(*syscall.SysProcAttr) {}
