package ioreader

import (
	"bytes"
	"io"
	"math"
	"sync"
)

// pump copies src to dst, with permits from side. It takes the side's turn for one slice at a time,
// so that other calls can use the stream while the pump waits for src or dst.
type pump struct {
	side   *side
	dst    io.Writer
	src    io.Reader
	paid   paid
	buf    []byte      // nil means one from buffers
	passed func(n int) // called with the length of each part that was written; may be nil
}

// paid says at which end of the pump the bytes need permits.
type paid uint8

const (
	onWrite paid = iota
	onRead
)

// run copies and returns how many bytes were written to dst. The end of src is no error.
func (p pump) run() (total int64, err error) {
	if p.side.deadline.Source() == nil {
		return 0, errNotMade
	}
	// A ReadFrom that uses the kernel accepts a LimitedReader around a file, but not one around
	// another LimitedReader; offload adds its own.
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

// passArrived writes the bytes for which an earlier Read got no permits. done reports whether they
// were the last of the stream.
func (p pump) passArrived() (total int64, done bool, err error) {
	if p.paid != onRead {
		return 0, false, nil
	}
	var b [1 << 10]byte
	for {
		n, readErr := p.side.readArrived(b[:])
		if n > 0 { // an empty Write may have a meaning for dst
			m, err := io.Copy(p.dst, bytes.NewReader(b[:n]))
			total += m
			if err != nil {
				return total, false, err
			}
		}
		switch {
		case readErr == io.EOF: //nolint:errorlint // it is not wrapped
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

// pumpReader and pumpWriter are the two ends of a pump for io.CopyBuffer. They have no WriteTo and
// ReadFrom, which io.CopyBuffer would use instead.
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
	n, err := p.src.Read(b)
	if n < 0 || n > len(b) {
		return 0, badCount(p.src, n, len(b))
	}
	return n, err
}

func (p pumpWriter) Write(b []byte) (int, error) {
	if p.paid == onWrite {
		return p.side.write(p.dst, b, p.passed)
	}
	return p.dst.Write(b)
}
