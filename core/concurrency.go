package core

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// ConcurrencyLimiterOptions are the terms of a [ConcurrencyLimiter].
type ConcurrencyLimiterOptions struct {
	Name        string     // for metadata and errors; "": none
	PermitLimit int        // permits that may be held at once; at least 1
	QueueLimit  int        // permits that may wait; 0: nobody waits; at least 0
	QueueOrder  QueueOrder // who is served first
}

func (o ConcurrencyLimiterOptions) validate() error {
	f := faults{options: "ConcurrencyLimiterOptions"}
	f.atLeast("PermitLimit", o.PermitLimit, 1)
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.err()
}

func (o ConcurrencyLimiterOptions) terms() *terms {
	return newTerms(o.Name, time.Time{}, machine.Terms{
		Kind: machine.Concurrency, Limit: o.PermitLimit,
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, false),
	})
}

// ConcurrencyLimiter bounds how many permits are held at once: a lease holds its own
// until it is released. It is a semaphore with leases, a bounded queue, and a limit that
// can be changed. It never says when to retry: it does not know when leases are released.
//
// It is a [Limiter], [Reporter], [Idler], [Refunder] and [io.Closer], safe for concurrent
// use. Make it with [NewConcurrencyLimiter]; the zero value refuses with [ErrClosed].
type ConcurrencyLimiter struct {
	engine
	permits permits
}

// NewConcurrencyLimiter returns a limiter with all permits available, or what is wrong
// with the options, all at once.
func NewConcurrencyLimiter(o ConcurrencyLimiterOptions) (*ConcurrencyLimiter, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(ConcurrencyLimiter)
	l.watch.Store(watchFirst)
	l.start(o.terms(), &l.permits)
	return l, nil
}

// TryAcquire takes permits if they can be had now. It never blocks. While somebody waits,
// a limiter that serves the oldest first rejects it, even if the permits are there.
func (l *ConcurrencyLimiter) TryAcquire(permits int) Lease {
	if k, ok := l.tryFast(permits); ok {
		return k
	}
	return l.tryAcquireSlow(permits)
}

// Acquire takes permits, waiting for them if it must and the queue limit allows. A done
// ctx, then or later, ends it with ctx.Err(), unchanged, and leaves nothing taken.
func (l *ConcurrencyLimiter) Acquire(ctx context.Context, permits int) (Lease, error) {
	if ctx.Err() == nil {
		if k, ok := l.tryFast(permits); ok {
			return k, nil
		}
	}
	return l.acquireSlow(ctx, permits)
}

// tryQuietly is TryAcquire that leaves no trace if it does not grant.
func (l *ConcurrencyLimiter) tryQuietly(permits int) (Lease, bool) {
	if k, ok := l.tryFast(permits); ok {
		return k, true
	}
	return l.tryQuietlySlow(permits)
}

// Update puts new limits in force. What is held stays held: shrunk below it, the limiter
// has nothing available until enough has come back. The queue stays. A waiter that now fits
// is served at once; one that now asks for more than the limit gets
// [ErrPermitsExceedLimit]. Bad options change nothing. After Close it returns [ErrClosed].
func (l *ConcurrencyLimiter) Update(o ConcurrencyLimiterOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(o.terms())
}

// IdleFor returns how long no permit has been held, and whether that is so. The limiter
// keeps the time of the releases that leave nothing held for the first 16,384 of them, and
// for 65,536 after each call of IdleFor; a call after more than that counts from itself.
func (l *ConcurrencyLimiter) IdleFor() (time.Duration, bool) { return l.engine.IdleFor() }

// Refund releases the lease, as its Release does. A lease of another limiter is ignored.
func (l *ConcurrencyLimiter) Refund(lease Lease) { l.engine.Refund(lease) }

// Options returns the options in force: those of [NewConcurrencyLimiter] or of the latest
// Update.
func (l *ConcurrencyLimiter) Options() ConcurrencyLimiterOptions {
	t := l.terms()
	return ConcurrencyLimiterOptions{Name: t.name, PermitLimit: t.Limit, QueueLimit: t.QueueLimit, QueueOrder: t.order()}
}

// String returns a line for a person: the name, and the statistics.
func (l *ConcurrencyLimiter) String() string { return l.describe("concurrency limiter") }

// permits is the account of a concurrency limiter, with what its leases need.
type permits struct {
	machine.Permits

	// wholeAt is when all permits came to be available. To read the clock at every release
	// would double its cost, so that is done only for some thousands after somebody last
	// asked: engine.watch counts them down.
	wholeAt atomic.Int64

	tickets atomic.Pointer[spareTickets] // nil: never was a second lease held
}

const (
	watchFirst  = 1 << 14 // before anybody has asked
	watchGrants = 1 << 16
	unknown     = -1 // instant of permits.wholeAt
)

// idleSince is exact if not too many releases have made the limiter whole since it was last
// asked; else, and if the clock has gone back since, it counts from now.
func (p *permits) idleSince(now int64, limit int) (int64, bool) {
	if at := p.wholeAt.Load(); at == unknown || at > now {
		p.wholeAt.Store(now)
	}
	return p.wholeAt.Load(), p.Free() == limit
}
