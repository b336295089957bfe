package core

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/wait"
)

// Switch passes requests to another limiter, which you can replace while it is in use. Use it for a limit that
// changes, even in kind, or that is switched on and off.
//
// The decision of a limiter that [Switch.Set] has replaced is not used: the request goes to the new one. So a
// request that begins after Set returns is decided by the new limiter. Requests that were waiting move to the new
// limiter and wait there, even if its QueueLimit is 0. No request is lost or granted twice, and callers do not
// notice the change. Requests that move keep their order only roughly.
//
// With [Unlimited] the Switch grants everything. With [Blocked] it rejects everything. With [Paused] Acquire
// waits until Set replaces the limiter or ctx is done, and TryAcquire is rejected.
//
// A lease or a reservation belongs to the limiter that granted it. Granted and Rejected in the Statistics
// are those of the Switch and continue over a change; the other fields are those of the current limiter.
//
// It implements [Limiter], [Reporter], [Idler], [Reserver], [QuietTrier] and [io.Closer], and is safe for
// concurrent use. Use [As] to find out whether the current limiter is a [Replenisher], for example. Create
// it with [NewSwitch]; requests to the zero value fail with [ErrClosed].
type Switch struct {
	now               atomic.Pointer[switched] // nil in the zero value
	granted, rejected atomic.Uint64
}

// switched is a limiter while it is in use.
type switched struct {
	Limiter
	closed bool        // whether the Switch is closed: every request fails, and it is not exchanged any more
	over   wait.Source // ends when the limiter is exchanged or closed
}

// NewSwitch returns a Switch that passes requests to l. If l is nil, it uses [Unlimited].
func NewSwitch(l Limiter) *Switch {
	s := new(Switch)
	s.now.Store(&switched{Limiter: orUnlimited(l)})
	return s
}

func orUnlimited(l Limiter) Limiter {
	if isNil(l) {
		return Unlimited()
	}
	return l
}

// Limiter returns the current limiter.
func (s *Switch) Limiter() Limiter {
	if st := s.now.Load(); st != nil {
		return st.Limiter
	}
	return &failing{ErrClosed}
}

// Unwrap returns the current limiter, for [As].
func (s *Switch) Unwrap() Limiter { return s.Limiter() }

// Set makes l the current limiter. If l is nil, it uses [Unlimited]. Set does not close the old limiter and
// does not wait for the requests that move. It may be called from anywhere, for example from the Acquire of
// the current limiter when its store has failed. If l is the current limiter, or after Close, Set does
// nothing. l must not pass requests to s.
func (s *Switch) Set(l Limiter) {
	next := orUnlimited(l)
	for {
		old := s.now.Load()
		if old == nil || old.closed || identical(old.Limiter, next) || s.exchange(old, &switched{Limiter: next}) {
			return
		}
	}
}

// Apply changes the limit: it calls the function [Apply] with the current limiter, and then Set. If it returns
// an error, nothing has changed. After Close it returns [ErrClosed].
func (s *Switch) Apply(o Options) error {
	for {
		old := s.now.Load()
		if old == nil || old.closed {
			return ErrClosed
		}
		l, err := Apply(old.Limiter, o)
		switch {
		case err != nil:
			return err
		case identical(l, old.Limiter):
			if s.now.Load() == old {
				return nil
			}
		case s.exchange(old, &switched{Limiter: l}):
			return nil
		}
	}
}

// exchange puts next in the place of old and ends the waits in old. It returns false if old is not current.
//
// A request that waits in old is in acquireUnder of old's limiter. The end of old.over, the source of that wait, sends
// to the channel on which the request waits (internal/wait/signal.go), or ends its context if old is Paused or not a limiter
// of this package; await in waiting.go takes it out of the queue,
// and returns context.Canceled. Then acquireUnder of the Switch sees that old has been replaced, which is why that comes
// first, and asks next: beyond its QueueLimit, because the request has waited. If the request was granted just before,
// the grant is refunded, and it asks next as well.
func (s *Switch) exchange(old, next *switched) bool {
	ok := s.now.CompareAndSwap(old, next)
	if ok {
		old.over.End(context.Canceled)
	}
	return ok
}

// Close closes the current limiter if it is an [io.Closer], and returns its error. From then on Set does nothing, and
// every request fails with [ErrClosed], including those that wait, whatever the limiter decides. Limiters that Set
// replaced before stay open. Close may be called again and then returns nil.
func (s *Switch) Close() error {
	for {
		old := s.now.Load()
		if old == nil || old.closed {
			return nil
		}
		if !s.exchange(old, &switched{Limiter: old.Limiter, closed: true}) {
			continue
		}
		if c, ok := old.Limiter.(io.Closer); ok {
			return c.Close()
		}
		return nil
	}
}

// TryAcquire calls TryAcquire of the current limiter.
func (s *Switch) TryAcquire(permits int) Lease { return s.ask(permits, Limiter.TryAcquire) }

// Reserve calls Reserve of the current limiter, if it is a [Reserver]; otherwise the lease is not
// acquired, and its error says so. After Set the reservation stays with the old limiter.
func (s *Switch) Reserve(permits int) Lease { return s.ask(permits, reserve) }

// ask asks the current limiter with a function that does not wait.
func (s *Switch) ask(permits int, f func(Limiter, int) Lease) Lease {
	for {
		st := s.now.Load()
		if permits < 0 || st == nil || st.closed {
			return notAsked(permits)
		}
		if k := f(st.Limiter, permits); s.keeps(st, k) {
			s.count(k)
			return k
		}
	}
}

// notAsked returns the answer to a request of a closed Switch, or for negative permits.
func notAsked(permits int) Lease {
	if permits < 0 {
		return Lease{bits: uint64(negative)}
	}
	return Lease{bits: uint64(closed)}
}

// keeps reports whether st, which has answered with k, is still current. If not, it undoes a grant.
func (s *Switch) keeps(st *switched, k Lease) bool {
	if s.now.Load() == st {
		return true
	}
	k.undo()
	return false
}

func (s *Switch) count(k Lease) {
	switch {
	case k.Acquired():
		s.granted.Add(1)
	case k.rejected():
		s.rejected.Add(1)
	}
}

// TryQuietly is like TryAcquire, but does not count a rejection: see the function [TryQuietly].
func (s *Switch) TryQuietly(permits int) (Lease, bool) {
	for {
		st := s.now.Load()
		if permits < 0 || st == nil || st.closed {
			return notAsked(permits), false
		}
		k, ok := TryQuietly(st.Limiter, permits)
		switch {
		case !s.keeps(st, k):
		case ok:
			s.granted.Add(1)
			return k, true
		default:
			return k, false
		}
	}
}

// Acquire takes permits from the current limiter, and waits if that limiter's Acquire waits. If Set replaces
// the limiter, the request moves to the new one. A done context, the race of a grant and a cancellation, and
// the errors are as described at [Limiter].
func (s *Switch) Acquire(ctx context.Context, permits int) (Lease, error) {
	l, _, err := s.acquireUnder(ctx, permits, nil, bounded)
	return l, err
}

func (s *Switch) acquireUnder(ctx context.Context, permits int, by *wait.Source, q queueing) (l Lease, waited bool, err error) {
	if permits < 0 {
		return Lease{bits: uint64(negative)}, false, ErrNegativePermits
	}
	for {
		if err := whyEnded(ctx, by); err != nil {
			return Fail(err), waited, err
		}
		k, ok := s.TryQuietly(permits)
		if ok {
			return k, waited, nil
		}
		st := s.now.Load()
		if st == nil || st.closed {
			return notAsked(permits), waited, ErrClosed
		}
		k, w, err := acquireUnderBoth(ctx, st.Limiter, permits, &st.over, by, q)
		waited = waited || w
		if s.keeps(st, k) {
			s.count(k)
			return k, waited, err
		}
		if waited {
			q = beyond // it keeps its right to wait
		}
	}
}

// Available returns the Available of the current limiter.
func (s *Switch) Available() int { return s.Limiter().Available() }

// Statistics returns the Granted and Rejected of the Switch, and the other fields of the current
// limiter.
func (s *Switch) Statistics() Statistics {
	inner := (&view{s.Limiter()}).Statistics()
	inner.Granted, inner.Rejected = s.granted.Load(), s.rejected.Load()
	return inner
}

// IdleFor calls IdleFor of the current limiter. A limiter that is not an [Idler] is never idle.
func (s *Switch) IdleFor() (time.Duration, bool) {
	if s.now.Load() == nil {
		return 0, false
	}
	return (&view{s.Limiter()}).IdleFor()
}

// String returns a human-readable line: that of the current limiter.
func (s *Switch) String() string { return "switch: " + describe(s.Limiter()) }

func (s *Switch) itself() Limiter { return s }

func (s *Switch) isClosed() bool {
	st := s.now.Load()
	return st == nil || st.closed
}
