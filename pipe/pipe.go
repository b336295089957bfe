package pipe

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/limit/meter"
	"github.com/sluice-go/sluice/internal/wait"
)

// New returns the two ends of a pipe with the limiters in o, or an error that lists all invalid options.
// A limiter is invalid if it is a nil pointer, or if a Read would wait in it for permits that the
// buffered bytes hold.
//
// Bytes are read in the order in which they were written. All methods of the two ends may be
// called concurrently; the bytes of one Write stay together. A pipe has no goroutine of its own.
//
// Reads and Writes wait for their permits, whatever the QueueLimit of the limiter is.
func New(o Options) (*Reader, *Writer, error) {
	if err := o.validate("Options"); err != nil {
		return nil, nil, err
	}
	p, err := newPipe(o)
	if err != nil {
		return nil, nil, err
	}
	asks := meter.NewStream(p.wr.limiter.Limiter, p.wr.limiter.Limiter, nil) // the bytes that are read hold permits of WriteLimiter
	return &Reader{asks, p}, &Writer{asks, p}, nil
}

// stream tells other streams which limiters this one asks.
type stream = meter.Stream

// pipe is the state that the two ends share.
type pipe struct {
	// mu guards the fields below, and the fields of the sides that say so. It is held while bytes are copied.
	// The only lock taken under it is that of a core.ConcurrencyLimiter; no user code is called under it.
	mu     sync.Mutex
	bytes  exchange
	ledger hold.Ledger // what the bytes in the buffer hold

	rd, wr side

	// For Writes.
	plain    bool // each buffered byte, and each lent one, holds a plain permit
	leased   bool // the bytes may hold leases
	size     int  // Options.Buffer
	capacity int  // see fitCapacity. If leased, only for the call that has the turn; otherwise it does not change
}

// side is the state of reading or of writing. One call of each side at a time has the turn.
type side struct {
	turn wait.Turn

	// Only for the call that has the turn.
	limiter hold.Limiter // its Limiter is nil if the side is unlimited
	nested  meter.Nested // limiters of the read side, whose permits the buffered bytes may hold
	meter   meter.Meter
	popped  []core.Lease // to be released without the mutex

	deadline wait.Deadline

	// Guarded by the pipe's mutex.
	change  wait.List[struct{}] // the call that has the turn waits here for the other side
	closed  bool
	err     error // error from CloseWithError
	expired bool  // the deadline has passed
}

func newPipe(o Options) (*pipe, error) {
	p := &pipe{size: o.Buffer}
	p.bytes.buffer.keep = max(p.size, bufferSize)
	p.wr.start(o.WriteLimiter)
	read := o.ReadLimiter
	if !p.wr.unlimited() {
		current := p.wr.meter.Current()
		p.plain = p.wr.limiter.Plain(1)
		p.leased = !p.plain && (!current.Fixed() || !current.Rated)
		if current.Fixed() && !current.Rated && backdoor.Same(read, o.WriteLimiter) {
			read = nil // a Read pays nothing of what a Write has paid
		}
	}
	p.fitCapacity()
	switch {
	case p.plain:
		p.ledger = hold.Fixed(1)
	case !p.leased:
		p.ledger = hold.Fixed(0)
	}
	p.rd.start(read)
	if err := p.rd.nested.Beside(read, o.WriteLimiter); err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	for _, s := range []*side{&p.rd, &p.wr} {
		s.deadline.Start(func(expired bool) { p.setExpired(s, expired) })
	}
	return p, nil
}

// start makes the side ask l, which may be nil.
func (s *side) start(l core.Limiter) {
	if !backdoor.IsNil(l) {
		s.limiter = hold.Of(l)
		s.meter.Init(l)
	}
}

func (s *side) unlimited() bool { return s.limiter.Limiter == nil }

// String describes the side's limiter.
func (s *side) String() string { return meter.Describe(s.limiter.Limiter) }

// fitCapacity sets the capacity of the buffer, in bytes. If the limiter contains a concurrency limiter now, that one alone
// bounds the bytes, also when its limit changes: a Write waits in its queue, by its rules, and not for room. A limiter
// whose permits the bytes may hold, but that is none of core's, may be one inside: unless Options.Buffer is set, the
// buffer has room for more than its limit.
func (p *pipe) fitCapacity() {
	p.capacity = cmp.Or(p.size, bufferSize)
	if p.wr.unlimited() {
		return
	}
	switch c := p.wr.meter.Current(); {
	case c.Bounded:
		p.capacity = math.MaxInt
	case !c.Rated && p.size == 0:
		if limit := hold.Limit(p.wr.limiter.Limiter); limit <= math.MaxInt-p.capacity { // else it reports none
			p.capacity += limit
		}
	}
}

func (p *pipe) setExpired(s *side, expired bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.expired = expired
	s.change.Signal()
}

// givePlainLocked returns the permits of n bytes that were not in the buffer.
func (p *pipe) givePlainLocked(n int) {
	if p.plain && n > 0 {
		p.wr.limiter.GivePlain(n)
	}
}

// popLocked returns the plain permits that the oldest n bytes of the ledger hold, and appends the leases to
// popped, which the caller releases without the mutex.
func (p *pipe) popLocked(n int, popped *[]core.Lease) {
	if n == 0 {
		return
	}
	var permits int
	permits, *popped = p.ledger.Pop(n, *popped)
	if permits > 0 {
		p.wr.limiter.GivePlain(permits)
	}
}

// release releases leases in one call, which takes the limiter's lock once, and empties the slice.
func release(popped *[]core.Lease) {
	if len(*popped) > 0 {
		core.ReleaseAll(*popped)
		clear(*popped)
		*popped = (*popped)[:0]
	}
}

// readErrLocked returns the error with which a Read has to end, or nil. The end of the stream
// counts when all bytes have been read.
func (p *pipe) readErrLocked() error {
	drained := p.wr.closed && p.bytes.unread() == 0
	switch {
	case p.rd.closed:
		return io.ErrClosedPipe
	case drained && p.wr.err != nil:
		return p.wr.err
	case drained:
		return io.EOF
	case p.rd.expired:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// writeErrLocked returns the error with which a Write has to end, or nil.
func (p *pipe) writeErrLocked() error {
	if err := p.closedErrLocked(); err != nil {
		return err
	}
	if p.wr.expired {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// closedErrLocked returns the error of Writes after either end was closed, or nil.
func (p *pipe) closedErrLocked() error {
	switch {
	case p.wr.closed || p.rd.closed && p.rd.err == nil:
		return io.ErrClosedPipe
	case p.rd.closed:
		return p.rd.err
	}
	return nil
}

// endOr returns the error with which a call has to end, by endedLocked, or err if there is none.
func (p *pipe) endOr(endedLocked func() error, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ended := endedLocked(); ended != nil {
		return ended
	}
	return err
}

// closeRead closes the read side, and thereby ends writing. It drops the buffered bytes and returns
// their permits.
func (p *pipe) closeRead(err error) {
	var dropped []core.Lease // not popped, because a Read may have the turn
	if !p.close(&p.rd, err, &dropped) {
		return
	}
	defer release(&dropped) // also if a caller's context panics
	defer p.wr.deadline.Close(io.ErrClosedPipe)
	p.rd.deadline.Close(io.ErrClosedPipe)
}

// closeWrite closes the write side. Reads return the buffered bytes and then the end.
func (p *pipe) closeWrite(err error) {
	if p.close(&p.wr, err, nil) {
		p.wr.deadline.Close(io.ErrClosedPipe)
	}
}

// close closes a side, and reports whether it was open. The read side drops the buffer.
func (p *pipe) close(s *side, err error, dropped *[]core.Lease) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed, s.err = true, err
	if dropped != nil {
		p.popLocked(p.bytes.buffer.len(), dropped)
		p.bytes.buffer.drop()
	}
	p.rd.change.Signal()
	p.wr.change.Signal()
	return true
}

// errZero is the error of calls on a zero Reader or Writer.
var errZero error = zeroError{}

type zeroError struct{}

func (zeroError) Error() string { return "pipe: closed, because it was not made by New" }

func (zeroError) Is(target error) bool { return target == io.ErrClosedPipe || target == core.ErrClosed }

// background is the context of calls without a context parameter.
//
//nolint:forbidigo // there is no caller's context
var background = context.Background()
