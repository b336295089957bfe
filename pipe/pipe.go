package pipe

import (
	"context"
	"io"
	"os"
	"sync"

	"github.com/sluice-go/sluice/internal/deadline"
	"github.com/sluice-go/sluice/internal/meter"
)

// New returns the two ends of a pipe with these limiters, or what is wrong with them.
//
// Bytes written to the Writer are read from the Reader, in order. Write and Read may be
// called at the same time, and each from several goroutines: the bytes of one Write stay
// together.
func New(o Options) (*Reader, *Writer, error) {
	if err := o.validate("Options"); err != nil {
		return nil, nil, err
	}
	p := newPipe(o)
	return &Reader{p}, &Writer{p}, nil
}

// pipe is what the two ends share. The bytes on their way are those in the buffer, and
// after them those that a large Write lends while it waits.
type pipe struct {
	// mu guards what follows, but for what belongs to the call that has a side's turn. It is
	// held for as long as it takes to copy some bytes, and a ConcurrencyLimiter's own mutex
	// is the only one taken while it is held.
	mu     sync.Mutex
	buffer buffer
	lent   []byte // of the Write that has the turn; what was read of it is cut off
	leases leases // of bytes in the buffer, if wr.keeps

	wanted bool // a Read waits for bytes, and will not wait for a limiter then

	// A Write that waits is woken when so many bytes, or fewer, are on their way.
	resume int

	rd, wr side
}

// side is what reading and writing have in common. One call at a time has the turn, and
// waits and pays.
type side struct {
	payment
	deadline deadline.Deadline

	// Guarded by the pipe's mutex.
	busy    bool      // a call has the turn
	turn    sync.Cond // calls that wait for it
	cond    sync.Cond // the call that has it
	closed  bool
	expired bool  // the deadline has passed
	err     error // what CloseWithError said
}

func newPipe(o Options) *pipe {
	p := new(pipe)
	p.wr.limit(o.WriteLimiter)
	p.wr.hold()
	if !p.wr.holds() || !meter.Same(o.ReadLimiter, o.WriteLimiter) {
		p.rd.limit(o.ReadLimiter) // else the bytes have permits, which might be all that there are
	}
	for _, s := range []*side{&p.rd, &p.wr} {
		s.turn.L, s.cond.L = &p.mu, &p.mu
		s.deadline.Start(func(expired bool) { p.expire(s, expired) })
	}
	return p
}

// expire says whether the deadline of a side has passed.
func (p *pipe) expire(s *side, expired bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.expired = expired
	s.cond.Signal()
}

// enter waits for the turn of a side. leave must follow unless there is an error.
func (p *pipe) enter(ctx context.Context, s *side) error {
	return p.wait(ctx, &s.turn, func() bool {
		mine := !s.busy
		s.busy = true
		return mine
	})
}

func (p *pipe) leave(s *side) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.busy = false
	s.turn.Signal()
}

// wait waits on c until ready, which is called with the mutex held, reports true, or
// returns ctx.Err() once ctx is done.
func (p *pipe) wait(ctx context.Context, c *sync.Cond, ready func() bool) error {
	if ctx.Done() != nil {
		if p.check(ready) {
			return nil
		}
		stop := context.AfterFunc(ctx, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			c.Broadcast()
		})
		defer stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for !ready() {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.Wait()
	}
	return nil
}

func (p *pipe) check(ready func() bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return ready()
}

// readErrLocked returns why there is nothing to read, ever or for now; nil if there may be.
func (p *pipe) readErrLocked() error {
	ended := p.wr.closed && p.onTheirWayLocked() == 0
	switch {
	case p.rd.closed:
		return io.ErrClosedPipe
	case ended && p.wr.err != nil:
		return p.wr.err
	case ended:
		return io.EOF
	case p.rd.expired:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// writeErrLocked returns why nothing can be written; nil if it can.
func (p *pipe) writeErrLocked() error {
	if err := p.closedLocked(); err != nil {
		return err
	}
	if p.wr.expired {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// closedLocked returns why nothing can be written any more; nil if an end is still open.
func (p *pipe) closedLocked() error {
	switch {
	case p.wr.closed || p.rd.closed && p.rd.err == nil:
		return io.ErrClosedPipe
	case p.rd.closed:
		return p.rd.err
	}
	return nil
}

// onTheirWayLocked returns how many bytes there are to read.
func (p *pipe) onTheirWayLocked() int { return p.buffer.len() + len(p.lent) }

// closeRead ends reading: what is buffered is dropped, and its permits are given back.
func (p *pipe) closeRead(err error) {
	if !p.closeSide(&p.rd, err) {
		return
	}
	p.rd.deadline.Close(io.ErrClosedPipe)
	p.wr.deadline.Close(io.ErrClosedPipe)
	p.releaseRead()
}

// closeWrite ends writing. A Write in progress comes back; what it has put is read, and
// then the reader finds the end.
func (p *pipe) closeWrite(err error) {
	if p.closeSide(&p.wr, err) {
		p.wr.deadline.Close(io.ErrClosedPipe)
	}
}

// closeSide closes a side, and reports whether it was open.
func (p *pipe) closeSide(s *side, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed, s.err = true, err
	if s == &p.rd {
		p.wr.give(p.buffer.len())
		p.buffer.drop()
	}
	p.rd.cond.Signal()
	p.wr.cond.Signal()
	return true
}

// isClosed reports whether a side was closed.
func (p *pipe) isClosed(s *side) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.closed
}
