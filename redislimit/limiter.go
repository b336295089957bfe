package redislimit

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// options are the options of a limiter: core's, and Shared.
type options[O any] interface {
	name() string // of the type
	shared() Shared
	with(Shared) O
	validate(*faults)
	terms(Shared) *terms
	title() string
}

// limiter is a limiter with the options O: the engine, and what depends on O.
type limiter[O options[O]] struct {
	engine

	options O // the engine's mutex guards it
}

// init makes the limiter ready, or returns everything that is wrong with the options.
func (l *limiter[O]) init(o O) error {
	f := faults{options: o.name()}
	o.validate(&f)
	f.shared(o.shared())
	if err := f.err(); err != nil {
		return err
	}
	shared := o.shared().withDefaults()
	l.options = o.with(shared)
	l.start(shared, o.terms(shared))
	return nil
}

// Options returns the options in force: those of the constructor or of the latest Update, with
// the defaults of Shared.
func (l *limiter[O]) Options() O {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.options
}

// Update puts new limits in force, in this process. The queue stays: waiters that now fit are
// served at once, and waiters for more than the limit get [core.ErrPermitsExceedLimit]. Shared
// must be zero or what it was. If the options are bad, nothing changes. After Close, Update
// returns [core.ErrClosed].
//
// What is held or taken stays so. A bucket keeps the tokens that it has, at most its new limit;
// the next ones come when they were due or one new period from now, whichever is first. If a
// window's grid is another, each segment's permits go to the new segment that has its
// beginning, at the earliest the oldest that counts.
//
// Other processes go on with their own limits, less what is taken. While they differ, a bucket
// with the larger limit may grant the difference once more, and a window's permits come back as
// the process says that took them.
func (l *limiter[O]) Update(o O) error {
	if l.engine.shared.Store == nil {
		return core.ErrClosed
	}
	f := faults{options: o.name()}
	o.validate(&f)
	f.update(l.engine.shared, o.shared())
	if err := f.err(); err != nil {
		return err
	}
	return l.update(o.terms(l.engine.shared), func() { l.options = o.with(l.engine.shared) })
}

// String returns a human-readable line: what the limiter is, its name, key and statistics. It
// does not ask the store.
func (l *limiter[O]) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind := l.options.title()
	if l.engine.shared.Store == nil {
		return kind + " (not made by its constructor)"
	}
	if t := l.engine.terms; t.name != "" {
		kind += fmt.Sprintf(" %q", t.name)
	}
	return fmt.Sprintf("%s at %q: %v", kind, l.engine.shared.Key, l.statisticsLocked())
}

// rateLimiter is a limiter whose permits come back with time.
type rateLimiter[O options[O]] struct{ limiter[O] }

// Reset makes the limiter as new, for all processes: all permits are available, and debts are
// gone. Statistics stay, and this process' waiters are served. Leases from before give nothing
// back. It returns when the store has answered, or Budget is over; if the store is unreachable,
// nothing happens. What other processes have prefetched they may still spend.
func (r *rateLimiter[O]) Reset() {
	e := &r.engine
	if e.shared.Store == nil {
		return
	}
	e.mu.Lock()
	e.memory.prefetch.permits = 0
	e.mu.Unlock()
	e.decide(newRequest(op{code: opReset}))
}

// GiveBack returns n permits for which there is no lease any more, for all processes: the limiter is as if n permits fewer
// had been taken, the latest ones first. It returns at most what is missing, pays debts first, and serves this process'
// waiters that now fit. Settling leases from before may then give back nothing. n <= 0 does nothing. It returns when the
// store has answered, or Budget is over; if the store is unreachable, nothing happens. If the lease is still there, use
// Settle or Refund.
func (r *rateLimiter[O]) GiveBack(n int) {
	if r.engine.shared.Store != nil && n > 0 {
		r.engine.decide(newRequest(op{code: opReturn, permits: min(int64(n), most)}))
	}
}

// TryReplenish does nothing and returns false: permits come back by themselves.
func (*rateLimiter[O]) TryReplenish() bool { return false }

// AutoReplenishing returns true: permits come back by themselves.
func (r *rateLimiter[O]) AutoReplenishing() bool { return r.engine.shared.Store != nil }

// ReplenishmentPeriod returns the time from one replenishment to the next, as the store counts
// it: a bucket's period, the length of a fixed window or of a sliding window's segment.
func (r *rateLimiter[O]) ReplenishmentPeriod() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.engine.terms
	switch {
	case t == nil:
		return 0
	case t.kind == kindBucket:
		return lasts(t.span)
	case t.ofCalendar() && r.memory.window != 0:
		return lasts(r.memory.window)
	case t.ofCalendar():
		start, end := t.calendar.Bounds(time.Now())
		return end.Sub(start)
	}
	return lasts(t.span) / time.Duration(t.step)
}
