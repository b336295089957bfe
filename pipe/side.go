package pipe

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
)

// side is what reading and writing have in common: whose turn it is, why calls end, and
// where the one call whose turn it is waits.
type side struct {
	turn  turn
	state atomic.Uint32 // of ended, peerEnded and expired
	stops uint32        // those that end a call that waits
	wake  chan struct{} // has room for one token; one too many makes the waiter look again

	meter     meter                       // guarded by the turn
	throttle  *throttle                   // guarded by the turn; nil: none that can be used again
	throttled atomic.Pointer[cancellable] // who waits in the limiter

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

func (s *side) init(l core.Limiter, stops uint32) {
	s.meter = newMeter(l)
	s.stops = stops
	s.wake = make(chan struct{}, 1)
	s.turn.free = make(chan struct{}, 1)
}

func (s *side) is(bits uint32) bool { return s.state.Load()&bits != 0 }

func (s *side) stopped() bool { return s.is(s.stops) }

// stop makes the call that waits look at the state, which has just been changed. If that
// ends calls, c is who was throttled right after the change: who came later has seen it.
func (s *side) stop(c *cancellable) {
	s.rouse()
	if c != nil {
		c.cancel()
	}
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

// wait blocks until somebody rouses this side or ctx is done. Who waits has said so, and
// then looked again whether it has to; who brings what is waited for looks for waiters
// after that. So no call is forgotten.
func (s *side) wait(ctx context.Context) {
	done := ctx.Done()
	if done == nil {
		<-s.wake
		return
	}
	select {
	case <-s.wake:
	case <-done:
	}
}

// acquire takes permits for at most n bytes of a call on side s, whose turn is held.
func (p *pipe) acquire(ctx context.Context, s *side, n int) (core.Lease, int, error) {
	t := s.throttle
	if t == nil {
		t = &throttle{p: p, s: s}
		s.throttle = t
	}
	t.Context = ctx
	s.throttle = nil                    // should the limiter panic
	lease, n, err := s.meter.take(t, n) //nolint:contextcheck // t is made of ctx
	if err != nil && t.Err() != nil && ctx.Err() == nil {
		// The state has stopped the wait. A deadline may have been moved since: it did pass.
		err = os.ErrDeadlineExceeded
	}
	t.end()
	return lease, n, err
}

// stopTimer ends the deadline. The pipe's mutex is held.
func (s *side) stopTimer() {
	s.timers++
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}
