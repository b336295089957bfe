package core

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/direct"
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

func (o ConcurrencyLimiterOptions) terms() terms {
	return terms{name: o.Name, limit: o.PermitLimit, queueLimit: o.QueueLimit, order: o.QueueOrder}
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
	l.held = true
	l.watch.Store(watchFirst)
	l.start(time.Now(), o.terms(), &l.permits)
	return l, nil
}

// Update puts new limits in force. What is held stays held: shrunk below it, the limiter
// has nothing available until enough has come back. The queue stays; who now fits is
// served at once, who now asks for more than the limit gets [ErrPermitsExceedLimit]. Bad
// options change nothing. After Close it returns [ErrClosed].
func (l *ConcurrencyLimiter) Update(o ConcurrencyLimiterOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(o.terms())
}

// Options returns the options in force: those of [NewConcurrencyLimiter] or of the latest
// Update.
func (l *ConcurrencyLimiter) Options() ConcurrencyLimiterOptions {
	t := l.terms()
	return ConcurrencyLimiterOptions{Name: t.name, PermitLimit: t.limit, QueueLimit: t.queueLimit, QueueOrder: t.order}
}

// String returns a line for a person: the name, and the statistics.
func (l *ConcurrencyLimiter) String() string { return l.describe("concurrency limiter") }

// permits is the account of a concurrency limiter: what is free. Time does not matter.
type permits struct {
	limit int
	free  int // limit less what is held; below 0 after the limit shrank

	// When all permits came to be available, for since. To read the clock at every
	// release would double its cost, so that is done only for some thousands after
	// somebody last asked: engine.watch counts them down.
	wholeAt atomic.Int64

	tickets atomic.Pointer[ticketRing] // nil: never was a second lease held
	drawn   atomic.Uint64              // leases granted with a ticket

	hook func(direct.End) // told of the end of watched leases; set before they are granted
}

const (
	watchFirst  = 1 << 14 // before anybody has asked
	watchGrants = 1 << 16
	unknown     = -1 // instant of permits.wholeAt
)

func (p *permits) bind(_ int64, t *terms) {
	p.free += t.limit - p.limit
	p.limit = t.limit
}

func (p *permits) advance(int64) bool          { return false }
func (p *permits) available() int              { return max(p.free, 0) }
func (p *permits) take(_ int64, n int, _ bool) { p.free -= n }
func (p *permits) give(_, _ int64, n int)      { p.free += n }
func (p *permits) ready(int64, int) int64      { return never }
func (p *permits) kept(_, _ int64) bool        { return true }

func (p *permits) origin(int64, *cell) (int64, bool) { return 0, true }

func (p *permits) open(int64, *cell) (uint64, int64, bool) {
	return uint64(p.free), never, p.free >= 0 && uint64(p.free) <= maxCredit
}

func (p *permits) settle(_ int64, _ *cell, state uint64) { p.free = int(state) }

func (p *permits) clone() account { return &permits{limit: p.limit, free: p.free} }

func (p *permits) whole(now int64) int64 {
	if p.free == p.limit {
		return now
	}
	return math.MaxInt64
}

// since is exact if not too many releases have made the limiter whole since it was last
// asked; else it counts from now.
func (p *permits) since(now int64) (int64, bool) {
	if p.wholeAt.Load() == unknown {
		p.wholeAt.Store(now)
	}
	return p.wholeAt.Load(), p.free == p.limit
}
