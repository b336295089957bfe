//go:build !unix

package group

import "syscall"

// Foreground changes nothing.
func Foreground() (attr *syscall.SysProcAttr, back func()) { return nil, func() {} }
