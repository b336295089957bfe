package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/machine"
)

// ConcurrencyLimiterOptions are the options of a [ConcurrencyLimiter].
type ConcurrencyLimiterOptions struct {
	Name        string     // in metadata and errors; may be empty
	PermitLimit int        // permits that may be held at a time; at least 1
	QueueLimit  int        // permits that may wait; 0 means that Acquire does not wait; at least 0
	QueueOrder  QueueOrder // which waiter is served first
}

func (o ConcurrencyLimiterOptions) validate() error {
	f := faultsOf("ConcurrencyLimiterOptions")
	f.atLeast("PermitLimit", o.PermitLimit, 1)
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.Err()
}

func (o ConcurrencyLimiterOptions) label() label { return label{name: o.Name} }

func (o ConcurrencyLimiterOptions) apply(now Limiter) (Limiter, error) {
	return apply(now, o, NewConcurrencyLimiter)
}

func (o ConcurrencyLimiterOptions) terms() machine.Terms {
	return machine.Terms{
		Kind: machine.Concurrency, Limit: o.PermitLimit,
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, false),
	}
}

// ConcurrencyLimiter bounds how many permits are held at a time: a lease holds its permits until
// it is released. It is a semaphore with leases, a bounded queue, and a limit that can change
// while in use. Its rejections have no [RetryAfter], because it cannot know when leases will be
// released.
//
// It implements [Limiter], [Reporter], [Idler], [QuietTrier] and [io.Closer],
// and is safe for concurrent use. Create it with [NewConcurrencyLimiter]; requests to the zero value
// fail with [ErrClosed].
type ConcurrencyLimiter struct {
	engine
	account heldPermits
}

// NewConcurrencyLimiter returns a limiter with all permits available, or an error that reports
// all invalid options.
func NewConcurrencyLimiter(o ConcurrencyLimiterOptions) (*ConcurrencyLimiter, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(ConcurrencyLimiter)
	l.start(newSettings(o), &l.account)
	return l, nil
}

// Update applies new limits. Permits that are held stay held: if the new limit is lower,
// nothing is available until enough permits have come back. Queued requests stay queued. A
// waiter that now fits is served immediately; a waiter for more than the new limit gets
// [ErrPermitsExceedLimit]. If options are invalid, Update returns an error that lists all of them
// and changes nothing. Equal options change nothing. After Close, Update returns [ErrClosed].
func (l *ConcurrencyLimiter) Update(o ConcurrencyLimiterOptions) error { return l.update(o) }

// IdleFor returns a lower bound of how long no permit has been held. It returns 0 and false if one
// is held. Releases do not read the clock, so the time counts from the first call of IdleFor or
// Statistics, or from the first release with waiters in the queue, after which no permit was held.
func (l *ConcurrencyLimiter) IdleFor() (time.Duration, bool) { return l.engine.IdleFor() }

// Options returns the current options: those of [NewConcurrencyLimiter] or of the latest
// Update.
func (l *ConcurrencyLimiter) Options() ConcurrencyLimiterOptions {
	t := l.current()
	return ConcurrencyLimiterOptions{Name: t.name, PermitLimit: t.Most(), QueueLimit: t.QueueLimit, QueueOrder: t.order()}
}

// String returns a human-readable line: the name, and the statistics.
func (l *ConcurrencyLimiter) String() string { return l.describe("concurrency limiter") }

// heldPermits is the account of a concurrency limiter.
type heldPermits struct {
	machine.Permits

	// idleSince is the instant at which the limiter was first seen idle, or machine.Never if it was not since
	// its latest grant. Releases read no clock, so it is known only from the first time that a caller asks.
	idleSince int64

	spare handles // each refers to the current settings, unless the limiter is watched
}

// heldPermits returns the account of a concurrency limiter, or nil.
func (e *engine) heldPermits() *heldPermits {
	p, _ := e.m.Account().(*heldPermits)
	return p
}

// holdLocked returns a lease that holds n permits, which leaves left permits free. s are the current settings.
func (p *heldPermits) holdLocked(e *engine, s *settings, n, left int) Lease {
	p.idleSince = machine.Never
	h := p.spare.pop()
	if h == nil {
		h = new(handle)
		h.s.Store(s)
	}
	if e.watched {
		if h.settings() != s {
			h.s.Store(s) // ended leases may then report a later limit
		}
		return newLease(h, held, n, left, e.clock.Elapsed(), h.generation)
	}
	if uint64(n) >= 1<<factBits {
		return wideLease(h, held, n, left, unknown, h.generation)
	}
	return Lease{h: h, bits: uint64(held) | uint64(heldWidth)<<outcomeBits | uint64(n)<<factShift, reset: int64(left), at: h.generation}
}

// spareLocked keeps a handle whose lease has ended for another lease. Its settings are s.
func (p *heldPermits) spareLocked(e *engine, h *handle, s *settings) {
	if s == e.settings.Load() || e.watched {
		p.spare.push(h)
	}
}

// idleLocked returns for how long a concurrency limiter has been seen idle, and whether it is.
func (p *heldPermits) idleLocked(e *engine) (d int64, idle bool) {
	if _, idle = e.m.Idle(); !idle {
		return 0, false
	}
	now := e.clock.Elapsed()
	p.idleSince = min(p.idleSince, now) // it was not seen idle since its latest grant, or the clock went back
	return now - p.idleSince, true
}

// release releases a lease that holds something: in the common case, a concurrency limiter's. The handle's
// settings are read before the mutex is taken: they may change until then, but not their owner.
func (l Lease) release() {
	h := l.h
	if h.x != nil {
		l.releaseSlow()
		return
	}
	s := h.settings()
	e := s.owner
	e.mu.Lock()
	p := e.heldPermits()
	switch {
	case h.generation != l.at: // it has ended
		e.mu.Unlock()
	case e.watched || !e.m.Empty():
		end := e.endLocked(l, h, s)
		e.unlockAndWake(0)
		s.told(backdoor.Released, end)
	default:
		h.generation++
		p.Give(l.packed())
		p.spareLocked(e, h, s)
		e.mu.Unlock()
	}
}

// giveUp is release with a cause. It reports whether this call is the one that ended the lease.
func (l Lease) giveUp(cause backdoor.Cause) bool {
	h := l.handle()
	s := h.settings()
	e := s.owner
	e.mu.Lock()
	if h.generation != l.at {
		e.mu.Unlock()
		return false
	}
	end := e.endLocked(l, h, s)
	e.unlockAndWake(0)
	s.told(cause, end)
	return true
}

// endLocked ends a lease and returns its permits, serving the waiters that now fit. h is its handle and s
// are its settings.
func (e *engine) endLocked(l Lease, h *handle, s *settings) (end backdoor.End) {
	p, n := e.heldPermits(), l.permits()
	if e.watched {
		end = backdoor.End{
			Granted: time.Duration(l.reset), Held: time.Duration(e.clock.Elapsed() - l.reset),
			Permits: n, InFlight: e.m.Terms().Limit - p.Free(e.m.Terms()),
		}
	}
	h.generation++
	e.m.Release(0, n)
	p.spareLocked(e, h, s)
	p.idleLocked(e)
	return end
}

// told tells the hook of a watched lease that the lease has ended.
func (s *settings) told(cause backdoor.Cause, end backdoor.End) {
	if s.hook != nil {
		s.hook.Ended(cause, end)
	}
}

// settleHeld settles a lease of a concurrency limiter: the lease ends, and a lease of the next
// generation of its handle keeps the n permits.
func (e *engine) settleHeld(l Lease, n int) Lease {
	h := l.handle()
	if n == 0 {
		if !l.giveUp(backdoor.Refunded) {
			return l
		}
		return l.replacement(&h.settings().shared, granted, 0, 0)
	}
	e.mu.Lock()
	defer func() { e.unlockAndWake(0) }()
	switch {
	case l.outcome() != held: // of zero permits
		k := e.heldPermits().holdLocked(e, e.settings.Load(), n, 0)
		e.m.Release(0, -n)
		l.reset = k.reset
		return l.replacement(k.handle(), held, n, k.at)
	case h.generation != l.at:
		return l
	}
	h.generation++
	e.m.Release(0, l.permits()-n)
	return l.replacement(h, held, n, h.generation)
}
