package ioreader

import (
	"io"
	"io/fs"
	"math"
	"net"
	"sync"
	"syscall"
)

// pump moves all of src to dst under a side whose turn it has.
type pump struct {
	side *side
	e    *ending
	dst  io.Writer
	src  io.Reader
	paid paid
	buf  []byte      // nil: one of the pool's
	told func(n int) // nil: nobody is told what has passed
}

// paid says which end of the pump the bytes are paid at.
type paid uint8

const (
	onWrite paid = iota // what was read is known, so just that is paid for
	onRead
)

// run returns how many bytes dst took. The end of src is no error.
func (p pump) run() (int64, error) {
	limited, _ := p.src.(*io.LimitedReader)
	inner, left := p.src, int64(math.MaxInt64)
	if limited != nil {
		// The kernel's ways know a LimitedReader around a file, not one around another.
		inner, left = limited.R, limited.N
	}
	if k, ok := kernelPath(p.dst, inner); ok {
		n, err := p.offload(k, left)
		if limited != nil {
			limited.N -= n
		}
		return n, err
	}
	if p.buf != nil {
		return p.copy(p.buf)
	}
	b := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(b)
	return p.copy(b[:])
}

const bufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// copy moves the bytes through the buffer.
func (p pump) copy(buf []byte) (total int64, err error) {
	for {
		var n, m int
		var readErr, writeErr error
		if p.paid == onRead {
			n, readErr = p.side.readSlice(p.e, p.src, buf)
		} else {
			if readErr = p.e.Err(); readErr == nil {
				n, readErr = p.src.Read(buf)
			}
		}
		if n < 0 || n > len(buf) {
			return total, errBadCount
		}
		if n > 0 {
			m, writeErr = p.pass(buf[:n])
			total += int64(m)
		}
		switch {
		case writeErr != nil:
			return total, writeErr
		case readErr == io.EOF: //nolint:errorlint // io.Reader returns it as it is
			return total, nil
		case readErr != nil:
			return total, readErr
		}
	}
}

// pass writes what was read.
func (p pump) pass(b []byte) (n int, err error) {
	if p.paid == onWrite {
		return p.side.writeSlices(p.e, p.dst, b, p.told)
	}
	n, err = p.dst.Write(b)
	if n < 0 || n > len(b) {
		return 0, errBadCount
	}
	if p.told != nil {
		p.told(n)
	}
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}

// kernel is a source and a sink between which the kernel may move bytes by itself.
type kernel struct {
	sink   io.ReaderFrom
	source io.Reader
	file   file // nil: the source is a connection
}

// file is an *os.File, or what os makes of one to hide its WriteTo.
type file interface {
	fs.File
	io.Seeker
	syscall.Conn
}

// kernelPath finds out whether the sink's ReadFrom may keep the bytes of the source in
// the kernel. If it can't after all, it falls back to copying, slice by slice.
func kernelPath(dst io.Writer, src io.Reader) (kernel, bool) {
	sink, ok := dst.(io.ReaderFrom)
	if !ok {
		return kernel{}, false
	}
	switch s := src.(type) {
	case file:
		if !regular(s) {
			return kernel{}, false
		}
		if d, ok := dst.(file); ok && !regular(d) {
			return kernel{}, false
		}
		return kernel{sink, src, s}, true
	case interface {
		net.Conn
		syscall.Conn
	}:
		_, ok := dst.(syscall.Conn)
		return kernel{sink, src, nil}, ok
	}
	return kernel{}, false
}

func regular(f file) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// rest returns how many bytes are left in the file, from where it stands.
func (k kernel) rest() (int64, error) {
	if k.file == nil {
		return math.MaxInt64, nil
	}
	at, err := k.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	info, err := k.file.Stat()
	if err != nil {
		return 0, err
	}
	return max(info.Size()-at, 0), nil
}

// offloadSlice is the most that is moved without looking at the context.
const offloadSlice = 1 << 20

// offload moves at most left bytes by the sink's ReadFrom.
func (p pump) offload(k kernel, left int64) (total int64, err error) {
	// A file's end is known, so that nobody waits for permits that nothing needs.
	rest, err := k.rest()
	if err != nil {
		return 0, err
	}
	slice := &io.LimitedReader{R: k.source}
	for left > 0 {
		if rest <= 0 {
			if rest, err = k.rest(); err != nil || rest == 0 {
				return total, err
			}
		}
		n, err := p.side.take(p.e, int(min(left, rest, offloadSlice)))
		if err != nil {
			return total, err
		}
		slice.N = int64(n)
		m, err := k.sink.ReadFrom(slice)
		if m < 0 || m > int64(n) {
			return total, errBadCount
		}
		p.side.settle(int(m))
		total += m
		left -= m
		rest -= m
		if p.told != nil {
			p.told(int(m))
		}
		if err != nil || m < int64(n) {
			return total, err
		}
	}
	return total, nil
}
