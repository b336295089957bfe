package throttle

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// move has the kernel move the bytes of an [io.LimitedReader] around a file or a pipe, counts them and returns how many. It stops
// where the kernel refuses; a copy of the rest finds the reason. [os.File] moves those from file to file itself.
func (s *sink) move(r io.Reader) (total int64) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return 0
	}
	to, call := descriptor(s.f), unix.Sendfile
	from, ok := limited.R.(*os.File)
	if p, piped := limited.R.(pipe); piped {
		from, call = p.File, splice
	} else if !ok || s.regular {
		return 0
	}
	for limited.N > 0 {
		n, err := call(to, descriptor(from), nil, int(limited.N))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			break
		}
		limited.N -= int64(n)
		total += int64(n)
		s.n.Add(int64(n))
	}
	return total
}

// splice is splice(2) with the parameters of [unix.Sendfile].
func splice(to, from int, _ *int64, n int) (int, error) {
	moved, err := unix.Splice(from, nil, to, nil, n, 0)
	return int(moved), err
}

// source returns a pipe as an [ioreader.Splicer]. Any other file stays as it is.
func source(f *os.File) io.Reader {
	if info, err := f.Stat(); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return pipe{f}
	}
	return f
}

type pipe struct{ *os.File }

// Pending implements [ioreader.Splicer].
func (p pipe) Pending() (int64, error) {
	fd := descriptor(p.File)
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCINQ)
	return int64(n), err
}

const pipeSize = 1 << 20 // size that a user without privileges gets, by default

// enlarge makes a pipe larger, if the system lets it, so that a turn is one wait. That is not a flag of the caller's descriptor.
func enlarge(f *os.File) {
	fd := uintptr(descriptor(f))
	if size, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil && size < pipeSize {
		_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize)
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

// pause sleeps for d, or less if a signal comes. Its thread keeps the only P of the program. A sleep that gives the P up, such as
// [time.Sleep], has other threads look for work each time, which takes more CPU time than the copy: at 100 MB/s throttle then
// takes twice as much (go run ./cmd/compare -part commands, in bench). The other goroutines, which show the progress and wait for
// signals, run after the sleep.
func pause(_ context.Context, d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
	runtime.Gosched()
}
