package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/clock"
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
		Limit: o.PermitLimit, QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, false) | machine.Held,
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
	l.start(l, newSettings(o), &l.account)
	return l, nil
}

// Update applies new limits. Permits that are held stay held: if the new limit is lower,
// nothing is available until enough permits have come back. Queued requests stay queued. A
// waiter that now fits is served immediately; a waiter for more than the new limit gets
// [ErrPermitsExceedLimit]. If options are invalid, Update returns an error that lists all of them
// and changes nothing. Equal options change nothing. After Close, Update returns [ErrClosed].
func (l *ConcurrencyLimiter) Update(o ConcurrencyLimiterOptions) error { return l.update(o) }

func (l *ConcurrencyLimiter) itself() Limiter { return l }

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

// heldPermits is the account of a concurrency limiter, and what it keeps for its leases.
type heldPermits struct {
	machine.Permits

	// idleSince is the instant at which the limiter was first seen idle, or machine.Never if it was not since
	// its latest grant. Releases read no clock, so it is known only from the first time that a caller asks.
	idleSince int64

	spare handles // each refers to the current settings, unless the limiter is watched
}

// holdLocked returns a lease that holds n permits, which leaves left permits free. s are the current settings.
func (p *heldPermits) holdLocked(s *settings, n, left int, c *clock.Clock) Lease {
	p.idleSince = machine.Never
	h := p.spare.pop()
	if h == nil {
		h = new(handle)
		h.s.Store(s)
	}
	if s.hook == nil {
		if b, ok := packUsual(n, left); ok {
			return Lease{h: h, bits: uint64(held) | b, reset: unknown, at: h.generation}
		}
		return newLease(h, held, n, left, unknown, h.generation)
	}
	if h.settings() != s {
		h.s.Store(s) // ended leases may then report a later limit
	}
	return newLease(h, held, n, left, c.Elapsed(), h.generation)
}

// spareLocked keeps a handle whose lease has ended for another lease. Its settings are s.
func (p *heldPermits) spareLocked(h *handle, s, current *settings) {
	if s == current || s.hook != nil {
		p.spare.push(h)
	}
}

// updatedLocked drops the spare handles, unless the limiter is watched: ended leases still report the limit that they
// were granted under.
func (p *heldPermits) updatedLocked(s *settings) {
	if s.hook == nil {
		p.spare = handles{}
	}
}

// idleLocked returns for how long a concurrency limiter has been seen idle, and whether it is.
func (p *heldPermits) idleLocked(s *settings, c *clock.Clock) (d int64, idle bool) {
	if p.Free(&s.Terms) < s.Limit {
		return 0, false
	}
	now := c.Elapsed()
	p.idleSince = min(p.idleSince, now) // it was not seen idle since its latest grant, or the clock went back
	return now - p.idleSince, true
}

// heldPermits returns the account of a concurrency limiter, or nil.
func (e *engine) heldPermits() *heldPermits {
	p, _ := e.m.Account().(*heldPermits)
	return p
}

// release is Release of a lease that holds something. In the common case that is permits of a concurrency limiter, for which
// it is not worth to ask the owner (bench: Concurrency).
func (l Lease) release() {
	h := l.h
	if h.x != nil {
		l.owner().release(l)
		return
	}
	s := h.settings() // may change until the mutex is taken, but not their owner
	c := s.owner.(*ConcurrencyLimiter)
	c.mu.Lock()
	switch {
	case s.hook != nil || !c.m.Empty():
		c.mu.Unlock()
		c.end(l, backdoor.Released)
	case !h.endLocked(l.at):
		c.mu.Unlock()
	default:
		c.account.Give(l.packed())
		c.account.spareLocked(h, s, c.settings.Load())
		c.mu.Unlock()
	}
}

func (l *ConcurrencyLimiter) release(k Lease) { l.end(k, backdoor.Released) }

// end releases a lease with a cause, and serves the waiters that now fit. It reports whether this call is the one that
// ended the lease.
func (l *ConcurrencyLimiter) end(k Lease, cause backdoor.Cause) bool {
	h, n := k.handle(), k.permits()
	s := h.settings()
	l.mu.Lock()
	if !h.endLocked(k.at) {
		l.mu.Unlock()
		return false
	}
	end, now := backdoor.End{}, l.settings.Load()
	if s.hook != nil {
		end = backdoor.End{
			Granted: time.Duration(k.reset), Held: time.Duration(l.clock.Elapsed() - k.reset),
			Permits: n, InFlight: now.Limit - l.account.Free(&now.Terms),
		}
	}
	l.m.Release(0, n)
	l.account.spareLocked(h, s, now)
	l.account.idleLocked(now, &l.clock)
	l.unlockAndWake(0)
	if s.hook != nil {
		s.hook.Ended(cause, end)
	}
	return true
}

// settle settles a lease: it ends, and a lease of the next generation of its handle keeps the n permits.
func (l *ConcurrencyLimiter) settle(k Lease, n int) Lease {
	h := k.handle()
	if n == 0 {
		if !l.end(k, backdoor.Refunded) {
			return k
		}
		return k.replacement(&h.settings().shared, granted, 0, 0)
	}
	l.mu.Lock()
	defer func() { l.unlockAndWake(0) }()
	switch {
	case k.outcome() != held: // of zero permits
		hold := l.account.holdLocked(l.settings.Load(), n, 0, &l.clock)
		l.m.Release(0, -n)
		k.reset = hold.reset
		return k.replacement(hold.handle(), held, n, hold.at)
	case !h.endLocked(k.at):
		return k
	}
	l.m.Release(0, k.permits()-n)
	return k.replacement(h, held, n, h.generation)
}

func (l *ConcurrencyLimiter) window(*settings) int64 { return 0 }
