package run

import (
	"os"
	"syscall"
)

// pipe is os.Pipe, but the end that the program gets is not prepared for polling, which would cost several system calls per job.
func pipe() (r, w *os.File, err error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	_ = syscall.SetNonblock(ends[0], true) // os.NewFile polls what does not block
	return os.NewFile(uintptr(ends[0]), "|0"), os.NewFile(uintptr(ends[1]), "|1"), nil
}
