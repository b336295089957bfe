//go:build unix

package run

import (
	"io"
	"os"
	"syscall"
)

// readNow reads from a pipe without waiting. It returns 0 bytes if the pipe is empty, and io.EOF if no program can write to
// it.
func readNow(f *os.File, b []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, failed = syscall.Read(int(fd), b)
			if failed != syscall.EINTR {
				return true
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case failed == syscall.EAGAIN:
		return 0, nil
	case failed == nil && n == 0:
		return 0, io.EOF
	}
	return max(n, 0), failed
}
