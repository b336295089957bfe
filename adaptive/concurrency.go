package adaptive

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/adaptive/sampler"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Concurrency is a concurrency limiter with an adaptive limit: an [Algorithm] learns
// from how long leases are held and from which of them are dropped.
//
// Releasing a lease is a success: the time since its grant is the sample.
// [Concurrency.Drop] releases a lease whose work was dropped or timed out downstream,
// [Concurrency.Ignore] one that says nothing of the server. Work that failed at once for a reason of its
// own, such as bad input, is better ignored: it looks as if the server were fast.
//
// It keeps the rules of all limiters: see [core.Limiter]. A request for more than Max
// is refused with [core.ErrPermitsExceedLimit]; one for more than the limit in force, but
// not more than Max, waits until the limit has grown, or is rejected. While it waits at the
// head of the queue nobody else is served, and the limit grows only while permits are in
// use; so ask for few permits at a time, or set Min to the largest request.
//
// It is a [core.QuietTrier], [core.Reporter], [core.Idler], [core.Refunder] and [io.Closer], safe for
// concurrent use. It has no goroutine and no timer: it learns on the goroutines that release. Make it
// with [New]; the zero value refuses with [core.ErrClosed].
type Concurrency struct {
	inner   *core.ConcurrencyLimiter
	watched backdoor.Watched[core.Lease]
	o       Options
	late    time.Duration // a lease held longer is a drop
	dropped atomic.Int64  // since the last window

	learning atomic.Bool     // a goroutine has samples and calls the algorithm
	samples  sampler.Sampler // of the goroutine that set learning
}

// New returns a limiter with all its permits available. If options are invalid the error
// names each.
func New(o Options) (*Concurrency, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	inner, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: o.Name, PermitLimit: o.Max, QueueLimit: o.QueueLimit, QueueOrder: o.QueueOrder,
	})
	if err != nil {
		return nil, err
	}
	l := &Concurrency{inner: inner, o: o, late: math.MaxInt64}
	if a, ok := o.Algorithm.(interface{ timeout() time.Duration }); ok {
		l.late = a.timeout()
	}
	l.watched, _ = backdoor.Core[core.Lease]().Watch(inner, (*hook)(l))
	l.watched.Resize(o.Initial)
	return l, nil
}

// TryAcquire takes permits if they are available now. It never blocks.
func (l *Concurrency) TryAcquire(permits int) core.Lease {
	return l.limiter().TryAcquire(permits)
}

// Acquire takes permits, waiting for them if it must and the queue limit allows. If ctx is done,
// before or during the wait, it returns ctx.Err(), unchanged, and leaves nothing taken.
func (l *Concurrency) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return l.limiter().Acquire(ctx, permits)
}

// AcquireWaiting is for the packages of this module: it is Acquire that waits whatever QueueLimit is.
func (l *Concurrency) AcquireWaiting(ctx context.Context, permits int, asked backdoor.Asked) (core.Lease, error) {
	if outer, ok := asked.Limiter.(core.Limiter); ok && outer != core.Limiter(l) { // a type that embeds l
		return outer.Acquire(ctx, permits)
	}
	return backdoor.Core[core.Lease]().AcquireWaiting(ctx, l.limiter(), permits)
}

// TryQuietly is TryAcquire, but a rejection leaves no trace: see [core.TryQuietly].
func (l *Concurrency) TryQuietly(permits int) (core.Lease, bool) {
	return l.limiter().TryQuietly(permits)
}

// Limit returns the limit in force.
func (l *Concurrency) Limit() int { return l.Statistics().Limit }

// QueueOrder returns the order in which waiters are served: Options.QueueOrder.
func (l *Concurrency) QueueOrder() core.QueueOrder { return l.o.QueueOrder }

// Drop releases a lease whose work was dropped or timed out downstream. The limit shrinks by
// at least 1, down to Min. Drop does nothing to a lease that was released before or that another
// limiter granted; so a deferred Release may follow it.
func (l *Concurrency) Drop(lease core.Lease) { l.end(lease, backdoor.Dropped) }

// Ignore releases a lease without learning from it. It does nothing to a lease that was released
// before or that another limiter granted.
func (l *Concurrency) Ignore(lease core.Lease) { l.end(lease, backdoor.Ignored) }

// Refund is [Concurrency.Ignore]: a permit that was not used says nothing of the server.
func (l *Concurrency) Refund(lease core.Lease) { l.end(lease, backdoor.Refunded) }

func (l *Concurrency) end(lease core.Lease, cause backdoor.Cause) {
	if l.watched != nil {
		l.watched.End(lease, cause)
	}
}

// Available returns the number of permits that could be taken now.
func (l *Concurrency) Available() int { return l.Statistics().Available }

// Statistics returns the limiter's counts; Limit is the limit in force. It goes on counting
// after Close.
func (l *Concurrency) Statistics() core.Statistics {
	return l.limiter().Statistics()
}

// IdleFor returns how long all permits have been available, and reports whether they are.
func (l *Concurrency) IdleFor() (time.Duration, bool) {
	return l.limiter().IdleFor()
}

// Close ends every wait with [core.ErrClosed] and refuses from then on. Leases can still be
// released. It returns nil, however often it is called.
func (l *Concurrency) Close() error {
	return l.limiter().Close()
}

// limiter returns the limiter that decides. For the zero Concurrency that is the zero limiter, which refuses.
func (l *Concurrency) limiter() *core.ConcurrencyLimiter {
	if l.inner == nil {
		return new(core.ConcurrencyLimiter)
	}
	return l.inner
}

// String returns a line for a person: the name and the statistics.
func (l *Concurrency) String() string {
	return describe("adaptive concurrency limiter", l.o.Name, l.Statistics())
}

// hook is a Concurrency as core sees it.
type hook Concurrency

// Ended is called at the end of each lease that held permits. The goroutine that sets learning learns.
// In the meantime, other goroutines' successes are lost. Their drops are counted before they look at
// learning, so that the one that learns finds them.
func (h *hook) Ended(cause backdoor.Cause, e backdoor.End) {
	l := (*Concurrency)(h)
	success := cause == backdoor.Released && e.Held <= l.late
	switch {
	case cause == backdoor.Released && (e.Held < 0 || e.Held > decades):
		return // the lease ended by another clock than it began
	case success:
	case cause == backdoor.Dropped, cause == backdoor.Released:
		l.dropped.Add(1)
	default:
		return
	}
	if !l.learning.CompareAndSwap(false, true) {
		return
	}
	if success && l.samples.Add(e.InFlight, e.Granted, e.Held) || l.dropped.Load() > 0 {
		l.learn(e.Granted + e.Held)
	} else {
		l.learning.Store(false)
	}
	// A release that counted a drop after dropped was read, and before learning was false, has returned
	// and left the drop here.
	for l.dropped.Load() > 0 && l.learning.CompareAndSwap(false, true) {
		l.learn(e.Granted + e.Held)
	}
}

// decades is longer than any lease is held, unless it moves to a synctest bubble with another clock.
const decades = 20 * 365 * 24 * time.Hour

// learn gives the algorithm the window so far and moves the limit; at is now, since the limiter was made.
// The caller has set learning, and learn clears it, even if the user's code panics: then later drops
// are left for the next release.
func (l *Concurrency) learn(at time.Duration) {
	defer l.learning.Store(false)
	w := l.samples.Take(int(l.dropped.Swap(0)))
	c, want := Change{Old: l.Limit(), Reason: reasonUnknown, Latency: w.Mean}, math.NaN()
	defer func() {
		c.New = l.samples.Move(c.Old, l.o.Min, l.o.Max, want, w, at)
		l.move(c)
	}()
	want = l.o.Algorithm.Next(c.Old, Window(w))
	if e, ok := l.o.Algorithm.(interface {
		Explain() (string, time.Duration)
	}); ok {
		c.Reason, c.Baseline = e.Explain()
	}
}

// move puts another limit in force.
func (l *Concurrency) move(c Change) {
	if c.New == c.Old {
		return
	}
	l.watched.Resize(c.New)
	if l.o.OnChange != nil {
		l.o.OnChange(c)
	}
}
