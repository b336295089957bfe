package throttle

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// sendFile moves the bytes of a [io.LimitedReader] around a file to an output that is no regular file, and returns how many it
// moved. It stops where the kernel refuses; a copy of the rest finds the reason.
func sendFile(to *os.File, r io.Reader) (total int64) {
	limited, _ := r.(*io.LimitedReader)
	if limited == nil {
		return 0
	}
	from, ok := limited.R.(*os.File)
	for ok && limited.N > 0 {
		n, err := unix.Sendfile(descriptor(to), descriptor(from), nil, int(limited.N))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		ok = n > 0
		limited.N -= int64(max(n, 0))
		total += int64(max(n, 0))
	}
	return total
}

// enlarge has a pipe hold n bytes, as far as the system lets it, so that fewer calls block. That is not a flag of the caller's
// descriptor.
func enlarge(f *os.File, n int) {
	fd := uintptr(descriptor(f))
	if size, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil && size < n {
		_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, n)
	}
}

// descriptor returns the number of f, or -1, which no call accepts, if f is closed. [os.File.Fd] would make f block.
func descriptor(f *os.File) int {
	fd := -1
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(number uintptr) { fd = int(number) })
	}
	return fd
}
