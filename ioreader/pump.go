package ioreader

import (
	"io"
	"math"
	"sync"
)

// pump moves all of src to dst under a side. It has the side's turn for one slice at a time,
// so that others may use the stream while src is quiet, or dst busy.
type pump struct {
	side   *side
	dst    io.Writer
	src    io.Reader
	paid   paid
	buf    []byte      // nil: one of the pool's
	passed func(n int) // told what has passed; nil: nobody is
}

// paid says which end of the pump the bytes are paid at.
type paid uint8

const (
	onWrite paid = iota
	onRead
)

// run returns how many bytes dst took. The end of src is no error.
func (p pump) run() (total int64, err error) {
	if p.side.source.Load() == nil {
		return 0, errNotMade
	}
	// The kernel's ways know a LimitedReader around a file, not one around another.
	inner, left := p.src, int64(math.MaxInt64)
	limited, ok := p.src.(*io.LimitedReader)
	if ok {
		inner, left = limited.R, limited.N
	}
	if k, ok := kernelPath(p.dst, inner); ok {
		n, done, err := p.passArrived()
		if done || err != nil {
			return n, err
		}
		total = n
		n, done, err = p.offload(k, left)
		if limited != nil {
			limited.N -= n
		}
		if total += n; done || err != nil {
			return total, err
		}
	}
	n, err := p.copyBuffered()
	return total + n, err
}

// passArrived passes the bytes that an earlier Read could not pay for. done: they were the
// last.
func (p pump) passArrived() (total int64, done bool, err error) {
	if p.paid != onRead {
		return 0, false, nil
	}
	var b [1 << 10]byte
	for {
		n, readErr := p.side.readArrived(b[:])
		if n > 0 { // even of nothing a Write may mean something to dst
			m, err := p.write(b[:n])
			total += int64(m)
			if err != nil {
				return total, false, err
			}
		}
		switch {
		case readErr == io.EOF: //nolint:errorlint // as it came
			return total, true, nil
		case readErr != nil || n == 0:
			return total, false, readErr
		}
	}
}

const bufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// copyBuffered moves the bytes through a buffer.
func (p pump) copyBuffered() (total int64, err error) {
	buf := p.buf
	if buf == nil {
		b := buffers.Get().(*[bufferSize]byte)
		defer buffers.Put(b)
		buf = b[:]
	}
	for {
		n, readErr := p.read(buf)
		if n < 0 || n > len(buf) {
			return total, errBadCount
		}
		if n > 0 {
			m, err := p.write(buf[:n])
			total += int64(m)
			if err != nil {
				return total, err
			}
		}
		if readErr == io.EOF { //nolint:errorlint // io.Reader returns it as it is
			return total, nil
		}
		if readErr != nil {
			return total, readErr
		}
	}
}

func (p pump) read(buf []byte) (int, error) {
	if p.paid == onRead {
		return p.side.read(p.src, buf)
	}
	if err := p.ended(); err != nil {
		return 0, err
	}
	return p.src.Read(buf)
}

// ended returns why the stream has ended; nil if it has not.
func (p pump) ended() error { return p.side.endedUnder(p.side.source.Load()) }

// write writes what was read.
func (p pump) write(b []byte) (n int, err error) {
	if p.paid == onWrite {
		if err := p.side.enter(); err != nil {
			return 0, err
		}
		defer p.side.leave()
		return p.side.writeSlices(p.dst, b, p.passed)
	}
	n, err = p.dst.Write(b)
	if n < 0 || n > len(b) {
		return 0, errBadCount
	}
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}
