package ioreader

import (
	"bytes"
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
	if p.side.deadline.Source() == nil {
		return 0, errNotMade
	}
	// The kernel's ways know a LimitedReader around a file, not one around another.
	inner, want := p.src, int64(math.MaxInt64)
	limited, ok := p.src.(*io.LimitedReader)
	if ok {
		inner, want = limited.R, limited.N
	}
	if k, ok := kernelPath(p.dst, inner); ok {
		n, done, err := p.passArrived()
		if done || err != nil {
			return n, err
		}
		total = n
		n, done, err = p.offload(k, want)
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
			m, err := io.Copy(p.dst, bytes.NewReader(b[:n]))
			total += m
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
func (p pump) copyBuffered() (int64, error) {
	buf := p.buf
	if buf == nil {
		b := buffers.Get().(*[bufferSize]byte)
		defer buffers.Put(b)
		buf = b[:]
	}
	return io.CopyBuffer(pumpWriter{p}, pumpReader{p}, buf)
}

// pumpReader and pumpWriter are the ends of a pump, the one that is paid at with its permits.
// They have nothing else that io.CopyBuffer would prefer.
type (
	pumpReader struct{ pump }
	pumpWriter struct{ pump }
)

func (p pumpReader) Read(b []byte) (int, error) {
	if p.paid == onRead {
		return p.side.read(p.src, b)
	}
	if err := p.side.ended(); err != nil {
		return 0, err
	}
	return p.src.Read(b)
}

func (p pumpWriter) Write(b []byte) (int, error) {
	if p.paid == onWrite {
		return p.side.write(p.dst, b, p.passed)
	}
	return p.dst.Write(b)
}
