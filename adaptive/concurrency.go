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
// The release of a lease is a success, and the time since its grant is the sample. If the work was
// dropped or timed out downstream, release the lease with [Concurrency.Drop]. If the lease shows nothing
// about the server, release it with [Concurrency.Ignore]. For example, work that failed immediately
// because of bad input would make the server look fast.
//
// It follows the rules of all limiters: see [core.Limiter]. A request for more than Max permits fails
// with [core.ErrPermitsExceedLimit]. A request for more than the current limit, but not more than Max,
// waits until the limit has grown, or is rejected. While it waits at the head of the queue, no other
// caller is served, and the limit grows only while permits are in use. Therefore acquire few permits at
// a time, or set Min to the largest request.
//
// It is a [core.QuietTrier], [core.Reporter], [core.Idler] and [io.Closer], and safe for concurrent use. It
// has no goroutine and no timer: it learns on the goroutines that release leases. Create it with [New];
// requests to the zero value fail with [core.ErrClosed].
type Concurrency struct {
	waits

	inner   *core.ConcurrencyLimiter
	watched backdoor.Watched[core.Lease]
	o       Options
	late    time.Duration // a lease that is held longer counts as a drop
	dropped atomic.Int64  // drops since the last window

	learning atomic.Bool     // whether a goroutine uses samples and calls the algorithm
	samples  sampler.Sampler // owned by the goroutine that set learning
}

// New returns a limiter with all its permits available, or an error that lists all invalid options.
func New(o Options) (*Concurrency, error) {
	if err := o.setDefaults(); err != nil {
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
	l.waits = backdoor.WaitsBy(l, l.acquireWaiting)
	l.watched, _ = backdoor.Core[core.Limiter, core.Lease]().Watch(inner, (*hook)(l))
	l.watched.Resize(o.Initial)
	return l, nil
}

// TryAcquire takes permits if they are available now. It never blocks.
func (l *Concurrency) TryAcquire(permits int) core.Lease {
	return l.limiter().TryAcquire(permits)
}

// Acquire takes permits, waiting for them if necessary and if the queue limit allows it. If ctx is done,
// before or during the wait, it returns ctx.Err(), unchanged, and takes nothing.
func (l *Concurrency) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return l.limiter().Acquire(ctx, permits)
}

// acquireWaiting is like Acquire, but for a primitive of this module, which waits whatever QueueLimit is.
func (l *Concurrency) acquireWaiting(ctx context.Context, permits int) (core.Lease, error) {
	return waiting(ctx, l.limiter(), permits)
}

// waits makes a limiter wait beyond QueueLimit for this module's primitives, by its acquireWaiting.
type waits = backdoor.Waits[core.Lease]

func waiting(ctx context.Context, l core.Limiter, permits int) (core.Lease, error) {
	lease, _, err := backdoor.Core[core.Limiter, core.Lease]().Acquire(ctx, l, permits, nil, backdoor.Beyond)
	return lease, err
}

// TryQuietly is like TryAcquire, but a rejection is not counted and has no reason: see
// [core.TryQuietly].
func (l *Concurrency) TryQuietly(permits int) (core.Lease, bool) {
	return l.limiter().TryQuietly(permits)
}

// Limit returns the current limit.
func (l *Concurrency) Limit() int { return l.Statistics().Limit }

// QueueOrder returns the order in which waiters are served: Options.QueueOrder.
func (l *Concurrency) QueueOrder() core.QueueOrder { return l.o.QueueOrder }

// Drop releases a lease whose work was dropped or timed out downstream. The limit shrinks by at least 1,
// but not below Min. Drop ignores leases that were already released or that another limiter granted. A
// deferred Release may follow it.
func (l *Concurrency) Drop(lease core.Lease) { l.end(lease, backdoor.Dropped) }

// Ignore releases a lease without learning from it, as [core.Lease.Refund] does: a permit that was not used
// shows nothing about the server. It ignores leases that were already released or that another limiter
// granted.
func (l *Concurrency) Ignore(lease core.Lease) { l.end(lease, backdoor.Ignored) }

func (l *Concurrency) end(lease core.Lease, cause backdoor.Cause) {
	if l.watched != nil {
		l.watched.End(lease, cause)
	}
}

// Available returns the number of permits that could be taken now.
func (l *Concurrency) Available() int { return l.Statistics().Available }

// Statistics returns the limiter's counts. Limit is the current limit. It may be called after Close.
func (l *Concurrency) Statistics() core.Statistics {
	return l.limiter().Statistics()
}

// IdleFor returns how long all permits have been available, and reports whether they are.
func (l *Concurrency) IdleFor() (time.Duration, bool) {
	return l.limiter().IdleFor()
}

// Close ends all waits with [core.ErrClosed]; later requests fail with it too. Leases can still be
// released. Close always returns nil, and may be called again.
func (l *Concurrency) Close() error {
	return l.limiter().Close()
}

// limiter returns the inner limiter. For the zero Concurrency that is the zero limiter, which fails all requests.
func (l *Concurrency) limiter() *core.ConcurrencyLimiter {
	if l.inner == nil {
		return new(core.ConcurrencyLimiter)
	}
	return l.inner
}

// String returns a human-readable line: the name and the statistics.
func (l *Concurrency) String() string {
	return describe("adaptive concurrency limiter", l.o.Name, l.Statistics())
}

// hook is a Concurrency that core notifies.
type hook Concurrency

// Ended is called at the end of each lease that held permits. The goroutine that sets learning learns. In the
// meantime, the successes of other goroutines are lost. Their drops are not, because they are counted before the
// goroutines check learning, so that the one that learns finds them.
func (h *hook) Ended(cause backdoor.Cause, e backdoor.End) {
	l := (*Concurrency)(h)
	success := cause == backdoor.Released && e.Held <= l.late
	switch {
	case cause == backdoor.Released && (e.Held < 0 || e.Held > maxHeld):
		return // the lease was granted and released by different clocks
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

// maxHeld is longer than any lease is held, unless it moves into a synctest bubble with another clock.
const maxHeld = 20 * 365 * 24 * time.Hour

// learn passes the current window to the algorithm and moves the limit. at is the current time since the limiter was
// created. The caller has set learning, and learn clears it, even if the user's code panics. In that case later drops
// are left to the next release.
func (l *Concurrency) learn(at time.Duration) {
	defer l.learning.Store(false)
	w := l.samples.Take(int(l.dropped.Swap(0)))
	c, want := Change{Old: l.Limit(), Reason: reasonUnknown, Latency: w.Mean}, math.NaN()
	defer func() {
		c.New = l.samples.Move(c.Old, l.o.Min, l.o.Max, want, sampler.Restores(l.o.Algorithm), w, at)
		l.move(c)
	}()
	want = l.o.Algorithm.Next(c.Old, Sample(w))
	if e, ok := l.o.Algorithm.(interface {
		Explain() (string, time.Duration)
	}); ok {
		c.Reason, c.Baseline = e.Explain()
	}
}

// move applies a new limit.
func (l *Concurrency) move(c Change) {
	if c.New == c.Old {
		return
	}
	l.watched.Resize(c.New)
	if l.o.OnChange != nil {
		l.o.OnChange(c)
	}
}
