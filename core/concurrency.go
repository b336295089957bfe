package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/machine"
)

// ConcurrencyLimiterOptions are the options of a [ConcurrencyLimiter].
type ConcurrencyLimiterOptions struct {
	Name        string     // name in metadata and errors; may be empty
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

// NewConcurrencyLimiter returns a limiter with all permits available, or an error that lists all
// invalid options.
func NewConcurrencyLimiter(o ConcurrencyLimiterOptions) (*ConcurrencyLimiter, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(ConcurrencyLimiter)
	l.start(l, newSettings(o), &l.account)
	return l, nil
}

// Update applies new limits. Permits that are held stay held: if the new limit is lower, nothing is
// available until enough permits have been returned. Queued requests stay queued. A waiter that now
// fits is served immediately; a waiter for more than the new limit gets [ErrPermitsExceedLimit]. If
// options are invalid, Update returns an error that lists all of them and changes nothing. Equal
// options change nothing. After Close, Update returns [ErrClosed].
func (l *ConcurrencyLimiter) Update(o ConcurrencyLimiterOptions) error { return l.update(o) }

func (l *ConcurrencyLimiter) itself() Limiter { return l }

// IdleFor returns a lower bound of how long no permit has been held. It returns 0 and false if one is held. Because
// releases do not read the clock, the time starts only when one of these finds that no permit is held: a call of
// IdleFor or Statistics, or a release with waiters in the queue.
func (l *ConcurrencyLimiter) IdleFor() (time.Duration, bool) { return l.engine.IdleFor() }

// Options returns the current options: those of [NewConcurrencyLimiter] or of the latest
// Update.
func (l *ConcurrencyLimiter) Options() ConcurrencyLimiterOptions {
	t := l.current()
	return ConcurrencyLimiterOptions{Name: t.name, PermitLimit: t.Most(), QueueLimit: t.QueueLimit, QueueOrder: t.order()}
}

// String returns a human-readable line: the name, and the statistics.
func (l *ConcurrencyLimiter) String() string { return l.describe("concurrency limiter") }

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
	case k.outcome() != held: // a lease of zero permits
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

// ReleaseAll releases each of the leases. It is faster than calling Release for each, because it returns the permits
// of adjacent leases of one concurrency limiter together, and then serves the limiter's waiters once. If the release
// function of a [Grant] panics, ReleaseAll still releases the other leases.
func ReleaseAll(leases []Lease) {
	next := 0
	defer func() {
		if next < len(leases) { // the one before panicked
			ReleaseAll(leases[next:])
		}
	}()
	for next < len(leases) {
		c := leases[next].simpleOwner()
		if c == nil {
			next++
			leases[next-1].Release()
			continue
		}
		c.mu.Lock()
		n := 0
		for ; next < len(leases) && leases[next].simpleOwner() == c; next++ {
			l := leases[next]
			k := l.permits()
			if n+k < n {
				break // the sum would overflow
			}
			if l.h.endLocked(l.at) {
				n += k
				c.account.spareLocked(l.h, l.h.settings(), c.settings.Load())
			}
		}
		if n > 0 {
			c.m.Release(0, n)
		}
		c.unlockAndWake(0)
	}
}

// simpleOwner returns the concurrency limiter whose permits the lease holds, if its release only returns those
// permits, or nil.
func (l Lease) simpleOwner() *ConcurrencyLimiter {
	if l.outcome() != held || l.h.x != nil {
		return nil
	}
	if s := l.h.settings(); s.hook == nil {
		c, _ := s.owner.(*ConcurrencyLimiter)
		return c
	}
	return nil
}
