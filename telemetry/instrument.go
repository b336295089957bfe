package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/ending"
)

// Instrument returns a limiter that is l, and times what it does:
//
//   - sluice.limiter.queue.duration: how long an Acquire took that waited, granted or not.
//     It counts as waiting once l asks for the Done of the context that it is given. Whatever
//     ends without a lease is rejected here, a context that was done included.
//   - sluice.limiter.lease.duration: how long a lease was held, from the grant to its first
//     Release or Refund. A probe's lease is one too.
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
	i, err = newInstrumented(l, t)
	if err != nil {
		return nil, nil, errors.Join(err, unobserve())
	}
	return i, func() error {
		t.stopped.Store(true)
		return unobserve()
	}, nil
}

// newInstrumented returns a view of l that tells t what l does: a chain of l and of a limiter
// that grants everything, whose leases are timed. The chain sees to it that they are released
// once, with l's, and finds l's lease in its own when that is refunded.
func newInstrumented(l core.Limiter, t *times) (core.Limiter, error) {
	first := core.Limiter(&timed{l, t})
	if r, ok := l.(core.Refunder); ok {
		first = &timedRefunder{timed{l, t}, r}
	}
	second, err := newStopwatch(l, t)
	if err != nil {
		return nil, err
	}
	chain, err := core.Chain(first, second)
	if err != nil {
		return nil, err
	}
	return able(&instrumented{chain, l}), nil
}

// instrumented is what every instrumented limiter is; able adds what l can do beyond that.
type instrumented struct {
	chain *core.ChainedLimiter
	l     core.Limiter
}

func (i *instrumented) TryAcquire(permits int) core.Lease { return i.chain.TryAcquire(permits) }

func (i *instrumented) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return i.chain.Acquire(ctx, permits)
}

func (i *instrumented) Available() int { return i.l.Available() }

// timed is the limiter, its queue timed.
type timed struct {
	core.Limiter

	times *times
}

type timedRefunder struct {
	timed
	core.Refunder
}

// Acquire is asked by the chain, and given a context that knows whether anybody waited.
func (d *timed) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	since := time.Since(d.times.base)
	l, err := d.Limiter.Acquire(ctx, permits)
	if c, ok := ctx.(*ending.Context); ok && !c.Unused() {
		d.times.waited(ctx, time.Since(d.times.base)-since, err == nil && l.Acquired())
	}
	return l, err
}
