package throttle

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// direct copies src to the output within the kernel: a file by sendfile, a pipe by splice. It returns nil at the end of
// src, and if the kernel does not support that for these two; [ioreader.Copy] copies the rest.
//
// Copy moves at most 64 KiB at a time, as much as a pipe usually holds, and each call that blocks wakes threads of Go's
// scheduler: at 100 MB/s it took six times the CPU time of pv. A turn of direct is larger, and the pipes are enlarged to
// hold two turns. Then a turn is one sleep and two calls that rarely block. The size of a pipe is not a flag of the caller's
// descriptor.
func (j *job) direct(ctx context.Context, src *os.File, mode fs.FileMode) error {
	from, to := descriptor(src), descriptor(j.sink.f)
	piped := mode&fs.ModeNamedPipe != 0
	if !piped && !mode.IsRegular() {
		return nil
	}
	held := 0
	for {
		turn := j.pace.turn()
		if turn > held {
			held = turn
			enlarge(from, min(2*turn, maxPipe))
			enlarge(to, min(2*turn, maxPipe))
		}
		n := j.ready(src, from, piped)
		if n <= 0 {
			return nil
		}
		lease, err := j.pace.take(ctx, n)
		if err != nil {
			return err
		}
		n = lease.Permits()
		for left := n; left > 0; {
			k, err := transfer(to, from, left, piped)
			if k > 0 {
				left -= k
				j.sink.n.Add(int64(k))
				continue
			}
			j.pace.Settle(lease, n-left)
			switch {
			case err == nil, errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS),
				errors.Is(err, unix.EPERM), errors.Is(err, unix.EOPNOTSUPP):
				return nil
			}
			return &os.PathError{Op: "write", Path: j.sink.f.Name(), Err: err}
		}
	}
}

// ready returns how many bytes src has, and 0 if that is unknown. It waits until a pipe has some, or ends.
func (j *job) ready(src *os.File, from int, piped bool) int {
	if !piped {
		info, err := src.Stat()
		if err != nil {
			return 0
		}
		at, _ := src.Seek(0, io.SeekCurrent)
		return int(min(info.Size()-at, largestTurn))
	}
	n, err := unix.IoctlGetUint32(from, unix.TIOCINQ)
	if n == 0 && err == nil {
		since := time.Now()
		await(from, unix.POLLIN)
		j.pace.paused(time.Since(since))
		n, _ = unix.IoctlGetUint32(from, unix.TIOCINQ)
	}
	return int(n)
}

// transfer moves at most n bytes, at least one unless it is the end of src.
func transfer(to, from, n int, piped bool) (int, error) {
	for {
		k, err := move(to, from, n, piped)
		switch {
		case errors.Is(err, unix.EAGAIN): // a descriptor does not block
			await(from, unix.POLLIN)
			await(to, unix.POLLOUT)
		case !errors.Is(err, unix.EINTR):
			return k, err
		}
	}
}

func move(to, from, n int, piped bool) (int, error) {
	if piped {
		k, err := unix.Splice(from, nil, to, nil, n, 0)
		return int(k), err
	}
	return unix.Sendfile(to, from, nil, n)
}

// await waits until a descriptor is ready, or has an error, which the next call returns.
func await(fd int, events int16) {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

const maxPipe = 1 << 20 // of a user without privileges, by default

// enlarge has a pipe hold n bytes, as far as the system lets it.
func enlarge(fd, n int) {
	if size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err == nil && size < n {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, n)
	}
}

// descriptor returns the number of f. [os.File.Fd] would make f block.
func descriptor(f *os.File) (fd int) {
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(number uintptr) { fd = int(number) })
	}
	return fd
}
