package core

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// ConcurrencyLimiterOptions are the options of a [ConcurrencyLimiter].
type ConcurrencyLimiterOptions struct {
	Name        string     // in metadata and errors; "": none
	PermitLimit int        // permits that may be held at once; at least 1
	QueueLimit  int        // permits that may wait; 0: requests do not wait; at least 0
	QueueOrder  QueueOrder // which waiter is served first
}

func (o ConcurrencyLimiterOptions) validate() error {
	f := faults{options: "ConcurrencyLimiterOptions"}
	f.atLeast("PermitLimit", o.PermitLimit, 1)
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.err()
}

func (o ConcurrencyLimiterOptions) terms() machine.Terms {
	return machine.Terms{
		Kind: machine.Concurrency, Limit: o.PermitLimit,
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, false),
	}
}

// ConcurrencyLimiter bounds how many permits are held at once: a lease holds its permits until
// it is released. It is a semaphore with leases, a bounded queue, and a limit that can change
// while in use. Its rejections have no [RetryAfter], because it cannot know when leases will be
// released.
//
// It is a [Limiter], [Reporter], [Idler], [Refunder], [Settler] and [io.Closer], safe for
// concurrent use. Make it with [NewConcurrencyLimiter]; requests to the zero value fail with
// [ErrClosed].
type ConcurrencyLimiter struct {
	engine
	account permits
}

// NewConcurrencyLimiter returns a limiter with all permits available, or an error that reports
// all invalid options.
func NewConcurrencyLimiter(o ConcurrencyLimiterOptions) (*ConcurrencyLimiter, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(ConcurrencyLimiter)
	l.word.Store(shut)
	s := newSettings(label{name: o.Name}, o.terms())
	l.handles.Store(handlesOf(s.saying()))
	l.start(s, &l.account)
	return l, nil
}

// TryAcquire takes permits if they are available now. It never blocks. If the limiter serves
// the oldest first, TryAcquire is rejected while another request waits, even if the permits are
// available.
func (l *ConcurrencyLimiter) TryAcquire(permits int) Lease {
	if s, left, ok := l.take(permits); ok {
		return l.hold(s, permits, left)
	}
	if k, ok, _ := l.holdAgain(permits); ok {
		return k
	}
	return l.tryAcquireSlow(permits)
}

// holdAgain is TryQuietly after a take that failed.
func (l *ConcurrencyLimiter) holdAgain(n int) (k Lease, ok, decided bool) {
	s, left, ok, decided := l.retryTake(n)
	if ok {
		k = l.hold(s, n, left)
	}
	return k, ok, decided
}

// Acquire takes permits, waiting for them if necessary and if the queue has room. If ctx is
// done, before or during the wait, Acquire returns ctx.Err(), unchanged, and keeps no permits.
func (l *ConcurrencyLimiter) Acquire(ctx context.Context, permits int) (Lease, error) {
	if ctx.Err() == nil {
		if s, left, ok := l.take(permits); ok {
			return l.hold(s, permits, left), nil
		}
		if k, ok, _ := l.holdAgain(permits); ok {
			return k, nil
		}
	}
	return l.acquireSlow(ctx, permits)
}

// TryQuietly is TryAcquire that leaves no trace if it does not grant: see [TryQuietly].
func (l *ConcurrencyLimiter) TryQuietly(permits int) (Lease, bool) {
	if s, left, ok := l.take(permits); ok {
		return l.hold(s, permits, left), true
	}
	if k, ok, decided := l.holdAgain(permits); decided {
		return k, ok
	}
	return l.tryQuietlySlow(permits)
}

// Available returns the number of permits that could be taken now.
func (l *ConcurrencyLimiter) Available() int {
	if w := l.word.Load(); w&shut == 0 {
		return int(w & freeMask)
	}
	return l.engine.Available()
}

// Update puts new limits in force. Permits that are held stay held: if the new limit is lower,
// nothing is available until enough permits have come back. Queued requests stay queued. A
// waiter that now fits is served at once; a waiter for more than the new limit gets
// [ErrPermitsExceedLimit]. Invalid options change nothing and are reported, and equal options
// change nothing. After Close, Update returns [ErrClosed].
func (l *ConcurrencyLimiter) Update(o ConcurrencyLimiterOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(label{name: o.Name}, o.terms())
}

// IdleFor returns a lower bound of how long no permit has been held, and whether none is held.
// The time is counted from when a call of IdleFor or Statistics, or a release that served
// waiters, first saw the limiter idle.
func (l *ConcurrencyLimiter) IdleFor() (time.Duration, bool) { return l.engine.IdleFor() }

// Refund releases the lease, as Release does. It ignores a lease of another limiter.
func (l *ConcurrencyLimiter) Refund(lease Lease) { l.engine.Refund(lease) }

// Options returns the options in force: those of [NewConcurrencyLimiter] or of the latest
// Update.
func (l *ConcurrencyLimiter) Options() ConcurrencyLimiterOptions {
	t := l.inForce()
	return ConcurrencyLimiterOptions{Name: t.name, PermitLimit: t.Most(), QueueLimit: t.QueueLimit, QueueOrder: t.order()}
}

// String returns a human-readable line: the name, and the statistics.
func (l *ConcurrencyLimiter) String() string { return l.describe("concurrency limiter") }
