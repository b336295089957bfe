package throttle

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// sendfile has the kernel copy a part of a file to a pipe or a device, which [os.File.ReadFrom] does not. It copies nothing
// where the kernel cannot.
func sendfile(dst *os.File, r io.Reader) (n int64, err error) {
	part, ok := r.(*io.LimitedReader)
	if !ok {
		return 0, nil
	}
	src, ok := part.R.(*os.File)
	to, err := dst.Stat()
	if !ok || err != nil || to.Mode().IsRegular() {
		return 0, nil // ReadFrom reports it
	}
	in, err := src.SyscallConn()
	if err != nil {
		return 0, nil
	}
	out, err := dst.SyscallConn()
	if err != nil {
		return 0, nil
	}
	for part.N > 0 {
		var k int
		var failed error
		err = in.Control(func(from uintptr) {
			failed = out.Write(func(to uintptr) bool {
				k, err = unix.Sendfile(int(to), int(from), nil, int(part.N))
				return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
			})
		})
		if err == nil {
			err = failed
		}
		if k <= 0 || err != nil {
			break
		}
		part.N -= int64(k)
		n += int64(k)
	}
	switch {
	case err == nil, errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM), errors.Is(err, unix.EOPNOTSUPP):
		return n, nil
	}
	return n, &os.PathError{Op: "write", Path: dst.Name(), Err: err}
}
