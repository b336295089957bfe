package ioreader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/meter"
)

// CopyOptions are the options of [Copy]. The zero value copies without a limit.
type CopyOptions struct {
	Limiter    core.Limiter   // grants the bytes written; nil means no limit
	BufferSize int            // size of the copy buffer in bytes, at least 0; 0 means 32 KiB
	Total      int64          // expected number of bytes, for Progress; 0 or less means unknown, such as a ContentLength of -1
	OnProgress func(Progress) // called up to ten times a second while bytes pass, and at the end; may be nil
}

func (o CopyOptions) validate() (err error) {
	if o.BufferSize < 0 {
		err = fmt.Errorf("ioreader: CopyOptions.BufferSize = %d, want at least 0", o.BufferSize)
	}
	return errors.Join(meter.Check("ioreader: CopyOptions.Limiter", o.Limiter), err)
}

// Copy copies src to dst until src returns io.EOF, for which Copy returns a nil error, or until an
// error occurs. It returns the number of bytes written. If src is a file, and dst is a file or a
// TCP connection, the kernel copies the bytes if it supports that. Copies that share a token bucket of
// [PerSecond] get equal parts of its rate.
//
// When ctx is done, Copy returns ctx.Err(): immediately if it is waiting for permits, otherwise when the current src.Read or dst.Write returns.
// If a custom limiter rejects a request, Copy returns its *[core.RejectedError]. A rate limiter rejects a slice whose permits would become
// available after ctx's deadline; this *[core.RejectedError] also matches [context.DeadlineExceeded]. Permits for bytes that were not written are
// refunded. Copy closes neither dst nor src. It calls OnProgress on the caller's goroutine.
//
// Copy returns an error immediately if ctx, dst or src is nil or holds a nil pointer, or if an option is
// out of range.
func Copy(ctx context.Context, dst io.Writer, src io.Reader, o CopyOptions) (int64, error) {
	if err := o.validate(); err != nil {
		return 0, err
	}
	if backdoor.IsNil(ctx) || backdoor.IsNil(dst) || backdoor.IsNil(src) {
		return 0, errors.New("ioreader: Copy needs a context, a writer and a reader")
	}
	var s side
	s.start(ctx, o.Limiter, dst, src)
	var buf []byte
	if o.BufferSize > 0 {
		buf = make([]byte, o.BufferSize)
	}
	if o.OnProgress == nil {
		return s.copy(dst, src, buf)
	}
	t := newTracker(max(o.Total, 0), o.OnProgress)
	s.passed = t.passed
	n, err := s.copy(dst, src, buf)
	t.finish()
	return n, err
}

// copy copies src to dst, one of which is the underlying stream of the side. It returns how many bytes were written to
// dst. The end of src is no error. It takes the side's turn for one slice at a time, so that other calls can use the
// stream while it waits for src or dst. If buf is nil, it takes one from buffers.
func (s *side) copy(dst io.Writer, src io.Reader, buf []byte) (total int64, err error) {
	if s.deadline.Source() == nil {
		return 0, errNotMade
	}
	// A ReadFrom that uses the kernel accepts a LimitedReader around a file, but not one around
	// another LimitedReader; offload adds its own.
	inner, want := src, int64(math.MaxInt64)
	limited, ok := src.(*io.LimitedReader)
	if ok {
		inner, want = limited.R, limited.N
	}
	if sink, from := kernelPath(dst, inner); sink != nil {
		n, done, err := s.copyArrived(dst)
		if done || err != nil {
			return n, err
		}
		total = n
		n, done, err = s.offload(sink, from, want)
		if limited != nil {
			limited.N -= n
		}
		if total += n; done || err != nil {
			return total, err
		}
	}
	if buf == nil {
		b := buffers.Get().(*[bufferSize]byte)
		defer buffers.Put(b)
		buf = b[:]
	}
	n, err := io.CopyBuffer(copyWriter{s, dst}, copyReader{s, src}, buf)
	return total + n, err
}

// copyArrived writes the bytes for which an earlier Read got no permits. done reports whether they
// were the last of the stream.
func (s *side) copyArrived(dst io.Writer) (total int64, done bool, err error) {
	var b [1 << 10]byte
	for {
		n, readErr := s.readArrived(b[:])
		if n > 0 { // an empty Write may have a meaning for dst
			m, err := io.Copy(dst, bytes.NewReader(b[:n]))
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

// copyReader and copyWriter are the two ends of a copy for io.CopyBuffer. They have no WriteTo and
// ReadFrom, which io.CopyBuffer would use instead.
type (
	copyReader struct {
		s   *side
		src io.Reader
	}
	copyWriter struct {
		s   *side
		dst io.Writer
	}
)

func (c copyReader) Read(b []byte) (int, error) {
	if c.s.reads {
		return c.s.read(c.src, b)
	}
	if err := c.s.ended(); err != nil {
		return 0, err
	}
	return read(c.src, b)
}

func (c copyWriter) Write(b []byte) (int, error) {
	if c.s.reads {
		return c.dst.Write(b)
	}
	return c.s.write(c.dst, b)
}
