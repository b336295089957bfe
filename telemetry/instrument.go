package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/ending"
	"github.com/sluice-go/sluice/internal/limiter"
)

// Instrument returns a limiter that is l, and times what it does:
//
//   - sluice.limiter.queue.duration: how long an Acquire took that waited, granted or not.
//     It counts as waiting once l asks for the Done of the context that it is given, or if it
//     takes a millisecond without. Whatever ends without a lease is rejected here, a context
//     that was done included. One of redislimit waits while it is in the queue, not while the
//     store is asked.
//   - sluice.limiter.lease.duration: how long a lease was held, from the grant to its first
//     Release or Refund. A probe's lease is one too.
//
// A grant and its release allocate nothing if l is one of core's four limiters, or a chain of
// those; with an adaptive.Concurrency an Acquire allocates once. With another limiter it is
// more, and most if its leases have metadata.
//
// If l is a [core.Reporter], it is observed too, as by [Observe]. What acquires from l itself
// is not timed, but counted.
//
// The limiter is a core.Reporter, [core.Refunder], [core.Idler], [core.Replenisher] and
// [io.Closer] exactly if l is. The metadata of its leases is l's, and refunds reach l; the
// leases are its own, so refund them here and not with l. After a Release it is sure to refund
// the 16 leases that were released last. If l panics, so does it, and nothing is held.
// If l's Acquire returns no lease beside a nil error, the lease's Err is returned.
//
// stop ends the metrics; the limiter goes on.
func Instrument(o Options, name string, l core.Limiter) (i core.Limiter, stop func() error, err error) {
	if argument.IsNil(l) {
		return nil, nil, fmt.Errorf("telemetry: Instrument of limiter %q, which is nil", name)
	}
	t, err := newTimes(o, name)
	if err != nil {
		return nil, nil, err
	}
	unobserve := func() error { return nil }
	if r, ok := l.(core.Reporter); ok {
		if unobserve, err = Observe(o, name, r); err != nil {
			return nil, nil, err
		}
	}
	view, err := newInstrumented(l, t)
	if err != nil {
		return nil, nil, errors.Join(err, unobserve())
	}
	return able(view), func() error {
		t.stopped.Store(true)
		return unobserve()
	}, nil
}

// instrumented is what every instrumented limiter is; able adds what l can do beyond that.
//
// It is a chain of l and of a limiter that grants everything, and times its leases. The chain
// sees to it that they end once, with l's, and knows whose lease of l's to refund.
type instrumented struct {
	l      core.Limiter
	chain  *core.ChainedLimiter
	atOnce *core.ChainedLimiter // for an Acquire that need not wait; nil: l cannot tell without a trace
}

func newInstrumented(l core.Limiter, t *times) (i *instrumented, err error) {
	watch, err := newStopwatch(l, t)
	if err != nil {
		return nil, err
	}
	i = &instrumented{l: l}
	i.chain, err = core.Chain(newTimed(timed{Limiter: l, times: t}), watch)
	if err == nil && triesQuietly(l) {
		i.atOnce, err = core.Chain(newTimed(timed{Limiter: l, times: t, quietly: true}), watch)
	}
	return i, err
}

// triesQuietly reports whether core.TryQuietly knows l.
func triesQuietly(l core.Limiter) bool {
	switch l.(type) {
	case *core.ConcurrencyLimiter, *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow, *core.ChainedLimiter:
		return true
	}
	return false
}

func (i *instrumented) TryAcquire(permits int) core.Lease {
	if permits < 0 { // a chain would answer by itself, without l's metadata
		return i.l.TryAcquire(permits)
	}
	return i.chain.TryAcquire(permits)
}

// Acquire tries without a trace first: a context that tells of a wait has to be made.
func (i *instrumented) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if permits < 0 {
		l, err := i.l.Acquire(ctx, permits)
		return limiter.Checked(i.l, l, err)
	}
	if i.atOnce != nil && ctx.Err() == nil {
		if l := i.atOnce.TryAcquire(permits); l.Acquired() {
			return l, nil
		}
	}
	return i.chain.Acquire(ctx, permits)
}

func (i *instrumented) Available() int { return i.l.Available() }

func (i *instrumented) underneath() core.Limiter { return i.l }

// refund refunds a lease of either chain, which leave each other's alone.
func (i *instrumented) refund(l core.Lease) {
	i.chain.Refund(l)
	if i.atOnce != nil {
		i.atOnce.Refund(l)
	}
}

// timed is the limiter, its queue timed.
type timed struct {
	core.Limiter

	times   *times
	quietly bool // refusals leave no trace
}

// timedRefunder is timed for what is a core.Refunder.
type timedRefunder struct {
	timed
	core.Refunder
}

func newTimed(d timed) core.Limiter {
	if _, ok := d.Limiter.(*core.ConcurrencyLimiter); ok {
		return &d // a refund is a release, so the chain need not keep what was released
	}
	if r, ok := d.Limiter.(core.Refunder); ok {
		return &timedRefunder{d, r}
	}
	return &d
}

func (d *timed) TryAcquire(permits int) core.Lease {
	if d.quietly {
		l, _ := core.TryQuietly(d.Limiter, permits)
		return l
	}
	return d.Limiter.TryAcquire(permits)
}

// Acquire is called by the chain.
func (d *timed) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	since, observed := time.Since(d.times.base), ending.Observe(ctx)
	l, err := d.Limiter.Acquire(observed, permits) //nolint:contextcheck // it is ctx
	if took := time.Since(d.times.base) - since; hasWaited(observed, took) {
		d.times.waited(ctx, took, err == nil && l.Acquired())
	}
	return l, err
}

// sleeps is how long an Acquire takes, at least, that waited without asking its context.
const sleeps = time.Millisecond

// hasWaited reports whether an Acquire with ctx has waited.
func hasWaited(c *ending.Context, took time.Duration) bool {
	return c.Waited() || took >= sleeps && !c.Watched()
}
