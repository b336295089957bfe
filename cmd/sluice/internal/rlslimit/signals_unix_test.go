//go:build unix

package rlslimit_test

import "syscall"

// The signals that stop a server and let it continue.
const sigStop, sigCont = syscall.SIGSTOP, syscall.SIGCONT
