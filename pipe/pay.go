package pipe

import (
	"context"
	"errors"
	"math"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/deadline"
	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/meter"
)

// payment is how a side gets permits for its bytes. Fields that change are used only by the call
// that has the turn.
type payment struct {
	limiter core.Limiter // nil: unlimited
	meter   meter.Meter

	// The fields below are for the write side only. They say what the bytes in the buffer hold.
	permits direct.Permits // one for each byte, if the limiter is a *core.ConcurrencyLimiter; else nil
	keeps   bool           // the bytes hold leases: releasing a lease of this limiter may have an effect
	bounds  bool           // the limiter bounds the number of bytes in the buffer
	most    int            // the limiter's limit when it was last asked
}

// ways gives access to a concurrency limiter's plain permits: permits without a lease, which must
// be given back exactly once.
var ways = direct.Core[core.Lease]()

// limit makes the side ask l.
func (s *payment) limit(l core.Limiter) {
	if !argument.IsNil(l) {
		s.limiter = l
		s.meter.Init(l)
	}
}

// initHolding decides what the bytes in the buffer hold: plain permits, leases or nothing. They
// hold nothing of a rate limiter of package core, whose leases need no release.
func (s *payment) initHolding() {
	if s.limiter == nil {
		return
	}
	if permits, ok := ways.Permits(s.limiter); ok {
		s.permits, s.bounds = permits, true
		s.askLimit()
		return
	}
	switch l := s.limiter.(type) {
	case *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow:
		return
	case *core.ChainedLimiter:
		s.bounds = true
	default:
		r, ok := l.(core.Replenisher)
		s.bounds = !ok || r.ReplenishmentPeriod() == 0
	}
	s.keeps = true
	s.askLimit()
}

// holds reports whether the bytes in the buffer hold anything.
func (s *payment) holds() bool { return s.permits != nil || s.keeps }

// give gives back the permits of n bytes.
func (s *payment) give(n int) {
	if s.permits != nil && n > 0 {
		s.permits.Give(n)
	}
}

// String describes the side's limiter.
func (s *payment) String() string { return meter.Describe(s.limiter) }

// askLimit sets most to the limiter's limit, or to math.MaxInt if the limiter reports none.
func (s *payment) askLimit() { s.most = meter.Limit(s.limiter) }

// capacity returns how many bytes the buffer can hold. It is more than the limiter admits, so that
// a Write waits in the limiter's queue, by its rules, and not for room.
func (s *payment) capacity() int {
	if !s.bounds || s.most > math.MaxInt-bufferSize {
		return bufferSize
	}
	return bufferSize + s.most
}

// queues reports whether a Write may wait for the permits of the concurrency limiter.
func (s *payment) queues() bool {
	return s.limiter.(*core.ConcurrencyLimiter).Options().QueueLimit > 0
}

// A Write waits for at most 1/waitingPart of the limit. If it waited for all of it, no other user
// of the limiter would get a permit until all were back.
const waitingPart = 4

// takePermits takes n permits, or as many as are available, and returns their number. If none are
// available, it waits for only a part of n, and leaves the others to other users of the limiter.
func (s *payment) takePermits(ctx context.Context, d *deadline.Deadline, n int) (int, error) {
	for {
		if n > s.most {
			s.askLimit() // the limit may have grown
			n = min(n, s.most)
		}
		if s.permits.TryTake(n) {
			return n, nil
		}
		part := n
		if s.queues() {
			if left := min(s.limiter.Available(), n-1); left > 0 && s.permits.TryTake(left) {
				return left, nil
			}
			part = min(n, max(s.most/waitingPart, 1))
		}
		err := s.awaitPermits(ctx, d, part)
		if err == nil {
			return part, nil
		}
		if part == 1 || !errors.Is(err, core.ErrPermitsExceedLimit) {
			return 0, err
		}
		s.askLimit() // the limit has shrunk
		n = min(n, s.most, part-1)
	}
}

// awaitPermits waits for n permits, until ctx or the deadline ends the wait.
func (s *payment) awaitPermits(ctx context.Context, d *deadline.Deadline, n int) error {
	call := d.Source().Begin(ctx)
	defer call.End()
	if err := s.permits.Take(call.Context, n); err != nil { //nolint:contextcheck // it is ctx, until the source ends
		return call.Explain(err)
	}
	if err := call.Ended(); err != nil {
		s.permits.Give(n)
		return err
	}
	return nil
}

// leases is a queue of leases, in the order of the bytes that hold them.
type leases struct {
	ring  []held // as long as a power of two
	first int    // index of the oldest
	count int
}

// held is the lease of the bytes up to a position.
type held struct {
	lease core.Lease
	end   uint64
}

// push appends the lease of the bytes up to end.
func (l *leases) push(lease core.Lease, end uint64) {
	if l.count == len(l.ring) {
		larger := make([]held, max(2*l.count, 4))
		n := copy(larger, l.ring[l.first:])
		copy(larger[n:], l.ring[:l.first])
		l.ring, l.first = larger, 0
	}
	l.ring[(l.first+l.count)&(len(l.ring)-1)] = held{lease, end}
	l.count++
}

// pop moves the leases whose bytes all lie before position to out, and returns their number.
func (l *leases) pop(out []core.Lease, position uint64) int {
	n := 0
	for n < len(out) && l.count > 0 && l.ring[l.first].end <= position {
		h := &l.ring[l.first]
		out[n] = h.lease
		*h = held{}
		n++
		l.first = (l.first + 1) & (len(l.ring) - 1)
		l.count--
	}
	return n
}

// releasedAtOnce is the number of leases released in one call. A Read may take the bytes of many
// small Writes, and releasing their leases together takes the limiter's lock once.
const releasedAtOnce = 16

// releaseRead releases the leases of bytes that have been read or dropped.
func (p *pipe) releaseRead() {
	if !p.wr.keeps {
		return
	}
	var together [releasedAtOnce]core.Lease
	whole := false
	defer func() {
		if !whole { // a foreign limiter panicked: release the other leases
			p.releaseRead()
		}
	}()
	for n := p.popRead(together[:]); n > 0; n = p.popRead(together[:]) {
		core.ReleaseAll(together[:n])
	}
	whole = true
}

func (p *pipe) popRead(out []core.Lease) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leases.pop(out, p.buffer.start)
}
