package ioreader

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/meter"
	"github.com/sluice-go/sluice/internal/wait"
)

// stream tells other streams which limiters this one asks.
type stream = meter.Stream

// side is one direction of a stream. One call at a time has the turn; only that call uses meter
// and arrived.
type side struct {
	ctx      context.Context // context of the whole stream
	deadline wait.Deadline
	turn     wait.Turn

	limiter core.Limiter  // nil means unlimited
	reads   bool          // the bytes are read, and get their permits after that
	under   contextWriter // the underlying writer if it is one; otherwise nil
	nested  meter.Nested  // the limiter, over the underlying streams
	meter   meter.Meter   // calls the limiter, without what the underlying writer asks for itself, and what a pipe's bytes hold
	arrived arrived       // bytes that were read and have no permits yet
	passed  func(n int)   // called with the length of each slice that was written; may be nil
}

// start makes the side ready. It writes to w, or reads from r if w is nil. If r is not nil, the bytes come from there.
func (s *side) start(ctx context.Context, l core.Limiter, w, r any) {
	s.ctx, s.limiter, s.reads = ctx, l, w == nil
	s.under, _ = w.(contextWriter)
	s.nested.Over(s.limiter, w, r)
	s.meter.Init(s.limiter)
	s.deadline.Start(nil)
}

// canStart reports whether a stream can be made of these arguments.
func canStart(ctx context.Context, under any, l core.Limiter) bool {
	return !backdoor.IsNil(ctx) && !backdoor.IsNil(under) && meter.Check("", l) == nil
}

// unlimited reports whether the side has no limiter.
func (s *side) unlimited() bool { return s.limiter == nil }

// enter waits for the turn. leave must follow unless enter returns an error. If the turn is free,
// enter does not look at the deadline and the context; pay or ended does that later.
func (s *side) enter() error {
	source := s.deadline.Source()
	if source == nil {
		return errNotMade
	}
	if s.turn.TryTake() {
		return nil
	}
	call := source.Begin(s.ctx)
	defer call.End()
	return source.Explain(s.ctx, s.turn.Take(call.Context))
}

// leave ends the call's turn. If the underlying stream panicked, the slice has not been settled, so
// leave refunds it.
func (s *side) leave() {
	defer s.turn.Leave()
	s.meter.Settle(0)
}

// ended returns the error with which calls on this side have to end, or nil.
func (s *side) ended() error { return s.deadline.Source().Ended(s.ctx) }

// pay waits for permits for the next slice of n bytes, and returns the length of the slice. It skips limiters
// that the underlying writer uses for the same bytes, and limiters whose permits are held by the bytes of a pipe from
// which this side reads.
func (s *side) pay(n int) (int, error) {
	for {
		if _, err := s.nested.Follow(&s.meter); err != nil {
			return 0, fmt.Errorf("ioreader: %w", err)
		}
		if s.meter.Limiter() == nil {
			return n, s.ended()
		}
		k, err := s.meter.Take(s.ctx, s.deadline.Source(), n)
		if err != nil {
			return 0, err
		}
		// This request may have created the limiter of a key, which the underlying writer asks too.
		if changed, err := s.nested.Follow(&s.meter); !changed {
			return k, err
		}
	}
}

// setDeadline moves the deadline of the waits for permits.
func (s *side) setDeadline(at time.Time) error {
	if s.deadline.Source() == nil {
		return errNotMade
	}
	s.deadline.Set(at)
	return nil
}

// close ends the calls on this side, and closes the underlying stream if it is an io.Closer.
func (s *side) close(under any) error {
	if s.deadline.Source() == nil {
		return errNotMade
	}
	if !s.deadline.Close(io.ErrClosedPipe) {
		return nil
	}
	if c, ok := under.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// write writes p slice by slice.
func (s *side) write(w io.Writer, p []byte) (n int, err error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if len(p) == 0 {
		if err := s.ended(); err != nil {
			return 0, err
		}
		n, err := w.Write(p)
		return 0, cmp.Or(s.settle(w, n, 0), err)
	}
	for n < len(p) {
		k, err := s.pay(len(p) - n)
		if err != nil {
			return n, err
		}
		m, err := s.writeTo(w, p[n:n+k])
		if bad := s.settle(w, m, k); bad != nil {
			return n, bad
		}
		n += m
		if err != nil {
			return n, err
		}
		if m < k {
			return n, io.ErrShortWrite
		}
	}
	return n, nil
}

// settle ends a slice of n bytes, of which m were written to w. It returns an error if that is not possible.
func (s *side) settle(w any, m, n int) error {
	if m < 0 || m > n {
		return badCount(w, m, n)
	}
	s.meter.Settle(m)
	if s.passed != nil && m > 0 {
		s.passed(m)
	}
	return nil
}

// contextWriter is a writer whose waits end with a context, such as a pipe's. It may wait for permits that this
// side holds, by a limiter that hides the one that it uses: then the end of the context ends the wait.
type contextWriter interface {
	WriteContext(ctx context.Context, p []byte) (int, error)
}

// writeTo writes p to the underlying writer.
func (s *side) writeTo(w io.Writer, p []byte) (int, error) {
	if s.under == nil {
		return w.Write(p)
	}
	source := s.deadline.Source()
	call := source.Begin(s.ctx)
	defer call.End()
	n, err := s.under.WriteContext(call.Context, p)
	return n, source.Explain(s.ctx, err)
}

// read reads at most one slice, and then waits for permits for the bytes that it got. It keeps the
// bytes without permits for the next call.
func (s *side) read(r io.Reader, p []byte) (int, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if err := s.ended(); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil // not every underlying reader handles an empty p
	}
	if s.arrived.len() > 0 {
		return s.takeArrived(p)
	}
	n, readErr := read(r, p[:s.meter.Slice(len(p))])
	if n == 0 || s.unlimited() {
		return n, readErr
	}
	paid, err := s.pay(n)
	s.meter.Settle(paid)
	if paid < n {
		s.arrived.keep(p[paid:n], readErr)
		return paid, err
	}
	return paid, readErr
}

// read is r.Read, whose count is checked.
func read(r io.Reader, p []byte) (int, error) {
	n, err := r.Read(p)
	if n < 0 || n > len(p) {
		return 0, badCount(r, n, len(p))
	}
	return n, err
}

// readArrived reads bytes for which an earlier call got no permits. It returns 0 if there are none.
func (s *side) readArrived(p []byte) (int, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if s.arrived.len() == 0 {
		return 0, nil
	}
	return s.takeArrived(p)
}

// takeArrived is readArrived of a call that has the turn.
func (s *side) takeArrived(p []byte) (int, error) {
	n, err := s.pay(min(len(p), s.arrived.len()))
	if err != nil {
		return 0, err
	}
	s.meter.Settle(n)
	return s.arrived.take(p[:n])
}

// String describes the side's limiter.
func (s *side) String() string { return meter.Describe(s.limiter) }

// badCount is the error of a call for a number of bytes, if the stream underneath returned an impossible n.
func badCount(stream any, n, bytes int) error {
	return fmt.Errorf("ioreader: %T returned an invalid count: %d of %d bytes", stream, n, bytes)
}

// errNotMade is the error of calls on a zero Reader or Writer.
var errNotMade error = &closedError{
	"ioreader: Reader or Writer was not created with NewReader or NewWriter, or with a nil argument", core.ErrClosed,
}

// closedError is the error of calls on what is closed. It matches [io.ErrClosedPipe] and one more.
type closedError struct {
	text string
	also error
}

func (e *closedError) Error() string { return e.text }

func (e *closedError) Is(target error) bool { return target == io.ErrClosedPipe || target == e.also }
