package pipe

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/ring"
	"github.com/sluice-go/sluice/internal/wait"
)

// New returns the two ends of a pipe with the limiters in o. It returns an error if a field of o
// holds a nil pointer, or if a Read would wait for permits that the buffered bytes hold.
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
	return &Reader{p}, &Writer{p}, nil
}

// pipe is the state that the two ends share. The bytes to be read are those in the buffer,
// followed by the bytes that a large Write lends: while it waits, Reads copy them directly out of the
// slice passed to it. Conversely, a Write copies its bytes directly into the slice of a Read that
// waits.
//
// One Read and one Write at a time have the turn of their side; other calls wait for it.
type pipe struct {
	// mu guards the fields below, except a side's payment, which belongs to the call that has the
	// turn. It is held while bytes are copied. The only lock taken under it is that of a
	// core.ConcurrencyLimiter; no user code is called under it.
	mu     sync.Mutex
	buffer buffer
	lent   []byte          // the unread part of the bytes that a Write lends
	resume int             // a waiting Write is woken when at most this many bytes are left to read
	wanted []byte          // the rest of the slice of a Read that waits; else nil
	leases ring.Ring[held] // in the order of the bytes that hold them

	rd, wr side
}

// side is the state of reading or of writing.
type side struct {
	payment
	deadline wait.Deadline

	// Guarded by the pipe's mutex.
	busy    bool        // a call has the turn
	turn    wait.Signal // calls wait here for the turn
	change  wait.Signal // the call that has the turn waits here for the other side
	closed  bool
	err     error // from CloseWithError
	expired bool  // the deadline has passed
}

func newPipe(o Options) (*pipe, error) {
	p := new(pipe)
	p.wr.start(o.WriteLimiter)
	p.wr.startHolding()
	rest := o.ReadLimiter
	if p.wr.holding != nothing && rest != nil {
		var err error
		if rest, err = hold.Without(rest, hold.BindingRoots(o.WriteLimiter)); err != nil {
			return nil, fmt.Errorf("pipe: %w", err)
		}
	}
	p.rd.start(rest)
	p.rd.nested.Beside(rest, o.WriteLimiter)
	for _, s := range []*side{&p.rd, &p.wr} {
		s.deadline.Start(func(expired bool) { p.setExpired(s, expired) })
	}
	return p, nil
}

func (p *pipe) setExpired(s *side, expired bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.expired = expired
	s.change.Send()
}

// enter waits for the turn of a side, or returns ctx.Err(). If it returns nil, leave must
// follow.
func (p *pipe) enter(ctx context.Context, s *side) error {
	done := ctx.Done()
	p.mu.Lock()
	mine := true
	for s.busy && mine {
		mine = s.turn.Wait(&p.mu, done)
	}
	s.busy = s.busy || mine
	p.mu.Unlock()
	if !mine {
		return ctx.Err()
	}
	return nil
}

func (p *pipe) leave(s *side) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.busy = false
	s.turn.Send()
}

// unreadLocked returns the number of bytes that can be read.
func (p *pipe) unreadLocked() int { return p.buffer.len() + len(p.lent) }

// readErrLocked returns the error with which a Read has to end, or nil. The end of the stream
// counts when all bytes have been read.
func (p *pipe) readErrLocked() error {
	drained := p.wr.closed && p.unreadLocked() == 0
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

// closeRead closes the read side, and thereby ends writing. It drops the buffered bytes and gives
// their permits back.
func (p *pipe) closeRead(err error) {
	if !p.close(&p.rd, err) {
		return
	}
	p.rd.deadline.Close(io.ErrClosedPipe)
	p.wr.deadline.Close(io.ErrClosedPipe)
	p.releaseRead()
}

// closeWrite closes the write side. Reads return the buffered bytes and then the end.
func (p *pipe) closeWrite(err error) {
	if p.close(&p.wr, err) {
		p.wr.deadline.Close(io.ErrClosedPipe)
	}
}

// close closes a side, and reports whether it was open.
func (p *pipe) close(s *side, err error) bool {
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
	p.rd.change.Send()
	p.wr.change.Send()
	return true
}
