package throttle

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// inKernel moves bytes without bringing them into the program: splice where one end is a pipe, else copy_file_range or
// sendfile. What the kernel refuses goes through a buffer.
type inKernel struct {
	dst, src *os.File
	in, out  int
	way      way
	fromPipe bool
	rest     int64    // of a regular file, as far as is known
	buffered *through // nil: the kernel has refused nothing
}

type way uint8

const (
	bySplice way = iota
	byCopyFileRange
	bySendfile
)

const pipeSize = 1 << 20

// newMover returns the best way from src to dst.
func newMover(dst, src *os.File) mover {
	from, err := src.Stat()
	to, err2 := dst.Stat()
	if err != nil || err2 != nil {
		return newThrough(dst, src)
	}
	m := &inKernel{dst: dst, src: src, in: int(src.Fd()), out: int(dst.Fd())}
	isPipe := func(i os.FileInfo) bool { return i.Mode()&os.ModeNamedPipe != 0 }
	switch {
	case isPipe(from) || isPipe(to):
		m.way = bySplice
		for _, fd := range []int{m.in, m.out} {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize) // fails where it is no pipe, or not allowed
		}
	case !from.Mode().IsRegular():
		return newThrough(dst, src)
	case to.Mode().IsRegular():
		m.way = byCopyFileRange
	default:
		m.way = bySendfile
	}
	m.fromPipe = isPipe(from)
	m.measure()
	if !m.fromPipe && m.rest == 0 {
		return newThrough(dst, src) // a terminal or a socket; or empty, or what /proc makes up when it is read
	}
	return m
}

// measure finds out how much of a regular file is left.
func (m *inKernel) measure() {
	m.rest = 0
	if info, err := m.src.Stat(); err == nil && info.Mode().IsRegular() {
		if at, err := m.src.Seek(0, io.SeekCurrent); err == nil {
			m.rest = max(info.Size()-at, 0)
		}
	}
}

func (m *inKernel) ready() (int, error) {
	switch {
	case m.buffered != nil:
		return m.buffered.ready()
	case m.rest > 0:
		return int(min(m.rest, mostSlice)), nil
	}
	m.measure()
	if m.rest > 0 {
		return m.ready() // the file has grown
	}
	if !m.fromPipe {
		return m.fallBack().ready() // its size may be wrong
	}
	return m.readyPipe()
}

// readyPipe waits until there is something in the pipe that is read.
func (m *inKernel) readyPipe() (int, error) {
	for {
		if n, err := unix.IoctlGetInt(m.in, unix.TIOCINQ); err != nil {
			return m.fallBack().ready()
		} else if n > 0 {
			return n, nil
		}
		polled := []unix.PollFd{{Fd: int32(m.in), Events: unix.POLLIN}}
		_, err := unix.Poll(polled, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil, polled[0].Revents&unix.POLLIN == 0:
			return m.fallBack().ready() // its writers are gone: a read says so
		}
	}
}

func (m *inKernel) fallBack() *through {
	if m.buffered == nil {
		m.buffered = newThrough(m.dst, m.src)
	}
	return m.buffered
}

func (m *inKernel) move(permits int) (moved, bytes int, err error) {
	if m.buffered != nil {
		return m.buffered.move(permits)
	}
	n, err := m.call(permits)
	switch {
	case n > 0:
		m.rest = max(m.rest-int64(n), 0)
		return n, n, nil
	case err == nil: // the end, or a file that was cut off
		m.rest = 0
		m.fallBack()
		return 0, 0, nil
	case errors.Is(err, unix.EINTR):
		return 0, 0, nil
	case errors.Is(err, unix.EAGAIN):
		return 0, 0, m.wait()
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EXDEV), errors.Is(err, unix.EOPNOTSUPP),
		errors.Is(err, unix.EBADF), errors.Is(err, unix.EPERM):
		if m.way == byCopyFileRange {
			m.way = bySendfile
		} else {
			m.fallBack()
		}
		return 0, 0, nil
	}
	return 0, 0, &os.PathError{Op: "write", Path: m.dst.Name(), Err: err}
}

func (m *inKernel) call(permits int) (int, error) {
	switch m.way {
	case bySplice:
		n, err := unix.Splice(m.in, nil, m.out, nil, permits, unix.SPLICE_F_MOVE|unix.SPLICE_F_MORE)
		return int(n), err
	case byCopyFileRange:
		return unix.CopyFileRange(m.in, nil, m.out, nil, permits, 0)
	default:
		return unix.Sendfile(m.out, m.in, nil, permits)
	}
}

// wait waits until an end that does not block can go on.
func (m *inKernel) wait() error {
	polled := []unix.PollFd{{Fd: int32(m.out), Events: unix.POLLOUT}}
	if _, err := unix.Poll(polled, -1); err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("poll", err)
	}
	return nil
}
