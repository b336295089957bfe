package redislimit

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
)

// limiter is a limiter with the options O: the engine, and what depends on O.
type limiter[O any, P optionsOf[O]] struct {
	engine

	options O // the engine's mutex guards it
}

// init makes the limiter ready, or returns everything that is wrong with the options.
func (l *limiter[O, P]) init(o O) error {
	f := faults{options: reflect.TypeFor[O]().Name()}
	shared := P(&o).shared()
	*shared = shared.withDefaults()
	limits := P(&o).limits(&f)
	f.shared(*shared)
	if f.found() {
		return f.err()
	}
	l.options = o
	l.start(*shared, limits)
	return nil
}

// Options returns the options in force: those of the constructor or of the latest Update, with
// the defaults of Shared.
func (l *limiter[O, P]) Options() O {
	l.mu.Lock()
	defer l.unlock()
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
func (l *limiter[O, P]) Update(o O) error {
	inForce := l.engine.shared
	if inForce.Store == nil {
		return core.ErrClosed
	}
	f := faults{options: reflect.TypeFor[O]().Name()}
	f.unchanged(*P(&o).shared(), inForce)
	*P(&o).shared() = inForce
	limits := P(&o).limits(&f)
	if f.found() {
		return f.err()
	}
	return l.update(limits, func() { l.options = o })
}

// String returns a human-readable line: what the limiter is, its name, key and statistics. It
// does not ask the store.
func (l *limiter[O, P]) String() string {
	if l.engine.shared.Store == nil {
		return strings.TrimSuffix(reflect.TypeFor[O]().Name(), "Options") + " (not made by its constructor)"
	}
	l.mu.Lock()
	defer l.unlock()
	kind := l.engine.limits.title
	if name := l.engine.limits.name; name != "" {
		kind += fmt.Sprintf(" %q", name)
	}
	return fmt.Sprintf("%s at %q: %v", kind, l.engine.shared.Key, l.statisticsLocked())
}

// rateLimiter is a limiter whose permits come back with time.
type rateLimiter[O any, P optionsOf[O]] struct{ limiter[O, P] }

// Reset makes the limiter as new, for all processes: all permits are available, and debts are
// gone. Statistics stay, and this process' waiters are served. Leases from before give nothing
// back. It returns when the store has answered, or Timeout is over; if the store is unreachable,
// nothing happens. What other processes have prefetched they may still spend.
func (r *rateLimiter[O, P]) Reset() {
	r.perform(func() *operation {
		r.memory.prefetch.permits = 0
		return resetAll()
	})
}

// GiveBack returns n permits for which there is no lease any more, for all processes: the limiter is as if n permits fewer
// had been taken, the latest ones first. It returns at most what is missing, pays debts first, and serves this process'
// waiters that now fit. Settling leases from before may then give back nothing. n <= 0 does nothing. It returns when the
// store has answered, or Timeout is over; if the store is unreachable, nothing happens. If the lease is still there, use
// Settle or Refund.
func (r *rateLimiter[O, P]) GiveBack(n int) {
	if n > 0 {
		r.do(giveBackAny(min(int64(n), most)))
	}
}

// TryReplenish does nothing and returns false: permits come back by themselves.
func (*rateLimiter[O, P]) TryReplenish() bool { return false }

// AutoReplenishing returns true: permits come back by themselves.
func (r *rateLimiter[O, P]) AutoReplenishing() bool { return r.engine.shared.Store != nil }

// ReplenishmentPeriod returns the time from one replenishment to the next, as the store counts
// it: a bucket's period, the length of a fixed window or of a sliding window's segment.
func (r *rateLimiter[O, P]) ReplenishmentPeriod() time.Duration {
	if r.engine.shared.Store == nil {
		return 0
	}
	r.mu.Lock()
	defer r.unlock()
	l := r.engine.limits
	switch {
	case l.kind == kindBucket:
		return lasts(l.span)
	case l.ofCalendar():
		return l.windowOf(r.memory.window)
	}
	return lasts(l.span) / time.Duration(l.step)
}
