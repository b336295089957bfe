package pipe

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/ending"
	"github.com/sluice-go/sluice/internal/meter"
	"github.com/sluice-go/sluice/internal/turn"
)

// side is what reading and writing have in common: whose turn it is, why calls end, where
// the one call whose turn it is waits, and how it pays.
type side struct {
	turn  turn.Turn
	state atomic.Uint32 // of ended, peerEnded and expired
	stops uint32        // those that end a call that waits
	wake  chan struct{} // has room for one token; one too many makes the waiter look again

	canceled bool // the ctx of the call that has the turn ended its wait

	limiter core.Limiter
	limited bool           // it has to be asked
	permits direct.Permits // the writer's limiter, if it is a concurrency limiter itself: of its bytes, one each; else nil
	keeps   bool           // the leases of bytes in the ring have to be released
	bounds  bool           // what is held bounds the bytes in the ring
	limit   int            // of the limiter, when last asked; guarded by the turn
	meter   meter.Meter    // if there are no permits; guarded by the turn

	source atomic.Pointer[ending.Source] // ends a call that waits in the limiter; replaced after a deadline has passed
	waits  func()                        // for the sources
	spare  *ending.Context               // of an earlier call of background, to be used again; guarded by the turn
	kept   *ending.Source                // that spare is of

	// Guarded by the pipe's mutex.
	err    error       // what CloseWithError said
	timer  *time.Timer // of the deadline
	timers uint        // counts the deadlines set: the timer of an old one does nothing
}

const (
	ended     = 1 << iota // this side was closed
	peerEnded             // the other was, and for a reader, no more bytes come
	expired               // the deadline has passed
)

var ways = direct.Core[core.Lease]()

// init makes the side ready. flush, unless it is nil, makes this the writer's, and is called
// when its call is about to wait in the limiter.
func (s *side) init(l core.Limiter, stops uint32, flush func()) {
	s.stops = stops
	s.wake = make(chan struct{}, 1)
	s.turn.Init()
	if argument.IsNil(l) {
		l = nil
	}
	s.limiter, s.limited = l, l != nil
	s.waits = s.meter.Waits
	if flush != nil {
		s.waits = func() {
			flush()
			s.meter.Waits()
		}
		s.initHolding()
	}
	if s.permits == nil {
		s.meter.Init(l, &s.turn)
	}
	s.reopen()
}

// initHolding finds out what the limiter's leases hold.
func (s *side) initHolding() {
	if !s.limited {
		return
	}
	if permits, ok := ways.Permits(s.limiter); ok {
		s.permits, s.bounds = permits, true
		s.ask()
		return
	}
	switch l := s.limiter.(type) {
	case *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow:
	case *core.ChainedLimiter:
		s.keeps, s.bounds = true, true
	default:
		r, ok := l.(core.Replenisher)
		s.keeps, s.bounds = true, !ok || r.ReplenishmentPeriod() == 0
	}
	s.ask()
}

// reopen gives the side a source that has not ended.
func (s *side) reopen() { s.source.Store(&ending.Source{Waiting: s.waits}) }

// holds reports whether the bytes in the ring hold anything.
func (s *side) holds() bool { return s.permits != nil || s.keeps }

// trusted reports whether the limiter is one of core's, and runs nobody else's code.
func (s *side) trusted() bool { return s.permits != nil || s.meter.Trusted() }

func (s *side) is(bits uint32) bool { return s.state.Load()&bits != 0 }

func (s *side) stopped() bool { return s.is(s.stops) }

// stop ends the call that waits, and all later ones: the state has just been changed.
func (s *side) stop(cause error) {
	s.rouse()
	// Neither a call nor a deadline replaces the source from now on.
	s.source.Load().End(cause)
	s.meter.Clear()
}

// rouse makes the call that waits look again.
func (s *side) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// roused reports whether wait would return at once.
func (s *side) roused() bool { return len(s.wake) > 0 }

// wait blocks until the side is roused or done, a ctx's channel, is closed. Done is asked for
// before the call says that it waits: a ctx may be anybody's code, and panic. The call that waits has said so
// first, and then looked again whether it has to; the call that brings what it waits for
// looks for it after that. So no call is forgotten.
func (s *side) wait(done <-chan struct{}) {
	if done == nil {
		<-s.wake
		return
	}
	select {
	case <-s.wake:
	case <-done:
		s.canceled = true
	}
}

// broken returns the error of a ctx that is done; also of one that has none to say so.
func (s *side) broken(ctx context.Context) error {
	if err := ctx.Err(); err != nil || !s.canceled {
		return err
	}
	return context.Canceled
}

// String says what limits the side.
func (s *side) String() string { return meter.Describe(s.limiter) }

// begin returns what the limiter is asked with by a call whose context is ctx, and whose
// turn it is. finish must follow.
func (s *side) begin(ctx context.Context) *ending.Context {
	source := s.source.Load()
	if c := s.spare; c != nil && ctx == background && s.kept == source {
		s.spare = nil
		return c
	}
	s.kept = source
	return source.Begin(ctx)
}

// finish ends what the limiter was asked with, and returns what the caller is told of its
// error: a deadline that ended the wait did so even if it has been moved since.
func (s *side) finish(ctx context.Context, c *ending.Context, err error) error {
	err = c.Explain(err)
	if s.trusted() && ctx == background && c.Unused() {
		s.spare = c
	} else {
		c.Finish(s.trusted())
	}
	return err
}

// ask learns the limiter's limit: math.MaxInt if it does not tell.
func (s *side) ask() { s.limit = meter.Limit(s.limiter) }

// capacity returns the bytes that the buffer holds: beyond what the limiter lets it hold,
// so that it is the limiter that pushes back, by its queue and its queue limit.
func (s *side) capacity() int {
	if !s.bounds || s.limit > math.MaxInt-bufferSize {
		return bufferSize
	}
	return bufferSize + s.limit
}

// take pays for at most n bytes and returns for how many.
func (s *side) take(ctx context.Context, n int) (taken int, err error) {
	if s.permits != nil {
		return s.takePermits(ctx, n)
	}
	c := s.begin(ctx)
	defer func() { err = s.finish(ctx, c, err) }()
	return s.meter.Take(c, n) //nolint:contextcheck // c is made of ctx
}

// takePermits takes n permits if they are there now. Else it waits for a part of them only,
// which leaves some for others.
func (s *side) takePermits(ctx context.Context, n int) (int, error) {
	for {
		if n > s.limit {
			s.ask() // it may have grown
			n = min(n, s.limit)
		}
		if s.permits.TryTake(n) {
			return n, nil
		}
		waits := s.limiter.(*core.ConcurrencyLimiter).Options().QueueLimit > 0
		if waits || n == bufferSize { // which is a part of a larger Write
			// What is there passes before this call waits, or is refused.
			if left := min(s.limiter.Available(), n-1); left > 0 && s.permits.TryTake(left) {
				return left, nil
			}
		}
		part := n
		if waits {
			part = min(n, max(s.limit/waitingPart, 1))
		}
		c := s.begin(ctx)
		err := s.permits.Take(c, part) //nolint:contextcheck // c is made of ctx
		err = s.finish(ctx, c, err)
		if err == nil {
			return part, nil
		}
		if part == 1 || !errors.Is(err, core.ErrPermitsExceedLimit) {
			return 0, err
		}
		s.ask() // it has shrunk
		n = min(n, s.limit, part-1)
	}
}

// waitingPart of a concurrency limiter's permits is what a Write waits for at most: one that
// waited for all of them would keep those who share the limiter out until the last is back.
const waitingPart = 4

// stopTimer ends the deadline. The pipe's mutex is held.
func (s *side) stopTimer() {
	s.timers++
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}
