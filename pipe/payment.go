package pipe

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/meter"
	"github.com/sluice-go/sluice/internal/wait"
)

// payment is how a side gets permits for its bytes. Fields that change are used only by the call
// that has the turn.
type payment struct {
	limiter hold.Limiter // its Limiter is nil if the side is unlimited
	nested  meter.Nested // of the read side, whose permits the buffered bytes may hold
	meter   meter.Meter

	// The fields below are for the write side.
	holding  holding
	capacity int // of the buffer, in bytes; math.MaxInt if the limiter alone bounds it
}

// holding is what the bytes in the buffer hold.
type holding uint8

const (
	nothing holding = iota // of core's rate limiters, whose leases need no release
	permits                // plain permits, one for each byte
	leases                 // leases, in the pipe's ring
)

func (s *payment) unlimited() bool { return s.limiter.Limiter == nil }

// start makes the side ask l, which may be nil.
func (s *payment) start(l core.Limiter) {
	if !backdoor.IsNil(l) {
		s.limiter = hold.Of(l)
		s.meter.Init(l)
	}
}

// startHolding decides what the bytes in the buffer hold, and how many there may be.
func (s *payment) startHolding() {
	s.capacity = bufferSize
	if s.unlimited() || hold.ReturnsWithTime(s.limiter.Limiter) {
		return
	}
	s.holding = leases
	if s.limiter.Plain(1) {
		s.holding = permits
	}
	s.grow()
}

// grow raises the capacity to the limit in force, and reports whether that is higher now. The
// capacity is more than the limiter admits, so that a Write waits in the limiter's queue, by its
// rules, and not for room.
func (s *payment) grow() bool {
	before := s.capacity
	if limit := hold.Limit(s.limiter.Limiter); bounds(s.limiter.Limiter) {
		s.capacity = math.MaxInt
	} else if limit <= math.MaxInt-bufferSize { // else it reports none
		s.capacity = max(before, bufferSize+limit)
	}
	return s.capacity > before
}

// bounds reports whether a limiter is a concurrency limiter, or a chain that contains one. The
// bytes in the buffer are then never more than its limit.
func bounds(l core.Limiter) bool {
	switch l := l.(type) {
	case *core.ConcurrencyLimiter:
		return true
	case *core.ChainedLimiter:
		return slices.ContainsFunc(l.Limiters(), bounds)
	}
	return false
}

// give gives back the plain permits of n bytes.
func (s *payment) give(n int) {
	if s.holding == permits && n > 0 {
		s.limiter.GivePlain(n)
	}
}

// String describes the side's limiter.
func (s *payment) String() string {
	if s.unlimited() {
		return "unlimited"
	}
	return "limited by " + backdoor.Describe(s.limiter.Limiter)
}

// A Write waits for at most 1/waitingPart of the limit. If it waited for all of it, no other user
// of the limiter would get a permit until all were back.
const waitingPart = 4

// takePermits takes n plain permits, or as many as are available, and returns their number. If none
// are available, it waits for only a part of n, and leaves the others to other users of the limiter.
func (s *payment) takePermits(ctx context.Context, source *wait.Source, n int) (int, error) {
	for {
		if s.limiter.TryPlain(n) {
			return n, nil
		}
		limit := hold.Limit(s.limiter.Limiter)
		part := min(n, limit)
		if left := min(s.limiter.Available(), part); s.limiter.TryPlain(left) {
			return left, nil
		}
		part = min(part, max(limit/waitingPart, 1))
		_, err := s.limiter.TakeWaiting(ctx, source, part)
		if err == nil {
			return part, nil
		}
		if part == 1 || !errors.Is(err, core.ErrPermitsExceedLimit) {
			return 0, err
		}
		n = part - 1 // the limit has shrunk
	}
}

// held is the lease of the bytes up to a position of the buffer.
type held struct {
	lease core.Lease
	end   uint64
}

// releasedAtOnce is the number of leases released in one call. A Read may take the bytes of many
// small Writes, and releasing their leases together takes the limiter's lock once.
const releasedAtOnce = 16

// releaseRead releases the leases of bytes that have been read or dropped.
func (p *pipe) releaseRead() {
	if p.wr.holding != leases {
		return
	}
	var together [releasedAtOnce]core.Lease
	for n := p.popRead(together[:]); n > 0; n = p.popRead(together[:]) {
		core.ReleaseAll(together[:n])
	}
}

// popRead moves the leases of bytes that have been read to out, and returns their number.
func (p *pipe) popRead(out []core.Lease) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n < len(out) && p.leases.Len() > 0 && p.leases.At(0).end <= p.buffer.start {
		out[n] = p.leases.Pop().lease
		n++
	}
	return n
}
