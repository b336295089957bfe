package adaptive

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
)

// Concurrency is a concurrency limiter that finds its limit itself: an [Algorithm] learns
// from how long the leases were held and from which of them were dropped.
//
// A lease's Release is a success: the time from its grant is the sample. [Concurrency.Drop]
// releases a lease whose work was dropped or timed out downstream, [Concurrency.Ignore] one
// from which nothing is to be learned. Work that failed at once for a reason of its own, as
// for bad input, is better ignored: it would look as if all went fast.
//
// It keeps the rules of all limiters: see [core.Limiter]. A request for more than Max
// is refused with [core.ErrPermitsExceedLimit]; one for more than the limit in force, but
// not more than Max, waits until the limit has grown, or is rejected. While it waits at the
// head of the queue nobody else is served, and the limit grows only while permits are in
// use; so ask for few at a time, or let Min be what is asked for at most.
//
// It is a [core.Reporter], [core.Idler], [core.Refunder] and [io.Closer], safe for concurrent
// use. It has no goroutine and no timer: it learns on the goroutines that release. Make it
// with [New]; the zero value refuses with [core.ErrClosed].
type Concurrency struct {
	inner   *core.ConcurrencyLimiter
	watched direct.Watched[core.Lease]
	o       Options
	base    time.Time // the inner limiter's instants count from here
	limit   atomic.Int64

	// Samples are learned from one at a time, by the goroutine that moved turn from idle; the
	// others leave theirs in the queue for it.
	turn    atomic.Int32
	counter counter  // the algorithm, if it is one; else nil
	wanted  int      // by the algorithm, put within bounds; 0: unknown. For whoever's turn it is
	batch   []ending // taken from the queue; likewise
	next    int      // of the batch; likewise

	mu    sync.Mutex // guards queue; a leaf
	queue []ending
}

// New returns a limiter with all its permits available, or what is wrong with the options,
// all at once.
func New(o Options) (*Concurrency, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	l := &Concurrency{o: o, base: time.Now()}
	inner, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: o.Name, PermitLimit: o.Max, QueueLimit: o.QueueLimit, QueueOrder: o.QueueOrder,
	})
	if err != nil {
		return nil, err
	}
	l.inner = inner
	l.watched, _ = direct.Core[core.Lease]().Watch(inner, (*hook)(l))
	l.counter, _ = l.o.Algorithm.(counter)
	if a, ok := l.o.Algorithm.(interface{ since(base time.Time) }); ok {
		a.since(l.base)
	}
	l.limit.Store(int64(o.Initial))
	l.watched.Resize(o.Initial)
	return l, nil
}

// TryAcquire takes permits if they can be had now. It never blocks.
func (l *Concurrency) TryAcquire(permits int) core.Lease {
	if l.watched == nil {
		return l.refuse(permits)
	}
	return l.watched.TryAcquire(permits)
}

// Acquire takes permits, waiting for them if it must and the queue limit allows. A done ctx,
// then or later, ends it with ctx.Err(), unchanged, and leaves nothing taken.
func (l *Concurrency) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if l.watched == nil {
		var zero core.ConcurrencyLimiter
		return zero.Acquire(ctx, permits)
	}
	return l.watched.Acquire(ctx, permits)
}

// refuse answers for the zero value.
func (l *Concurrency) refuse(permits int) core.Lease {
	var zero core.ConcurrencyLimiter
	return zero.TryAcquire(permits)
}

// Limit returns the limit in force.
func (l *Concurrency) Limit() int { return int(l.limit.Load()) }

// Drop releases a lease whose work was dropped or timed out downstream: the limit shrinks by
// at least 1, down to Min. A lease that was released before, or that is not this
// limiter's, is left alone; so it goes well with a deferred Release.
func (l *Concurrency) Drop(lease core.Lease) { l.end(lease, direct.Dropped) }

// Ignore releases a lease without learning from it. A lease that was released before, or
// that is not this limiter's, is left alone.
func (l *Concurrency) Ignore(lease core.Lease) { l.end(lease, direct.Ignored) }

// Refund is [Concurrency.Ignore]: a permit that was not used teaches nothing.
func (l *Concurrency) Refund(lease core.Lease) { l.end(lease, direct.Refunded) }

func (l *Concurrency) end(lease core.Lease, cause direct.Cause) {
	if l.watched != nil {
		l.watched.End(lease, cause)
	}
}

// Available returns the permits that could be taken now.
func (l *Concurrency) Available() int { return l.Statistics().Available }

// Statistics returns the limiter's counts; Limit is the limit in force. They go on after
// Close.
func (l *Concurrency) Statistics() core.Statistics {
	if l.inner == nil {
		return core.Statistics{}
	}
	return l.inner.Statistics()
}

// IdleFor returns how long all permits have been available, and whether they are.
func (l *Concurrency) IdleFor() (time.Duration, bool) {
	if l.inner == nil {
		return 0, false
	}
	return l.inner.IdleFor()
}

// Close ends the wait of all who wait with [core.ErrClosed], and refuses from then on.
// Leases still release. It returns nil, however often it is called.
func (l *Concurrency) Close() error {
	if l.inner == nil {
		return nil
	}
	return l.inner.Close()
}

// String returns a line for a person: the name, and the statistics.
func (l *Concurrency) String() string {
	return describe("adaptive concurrency limiter", l.o.Name, l.Statistics())
}
