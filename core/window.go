package core

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// windowed is what the two windows share.
type windowed struct {
	rate
	segments machine.Segments
}

// TryAcquire takes permits if they are available now. It never blocks. If the limiter serves
// the oldest first, TryAcquire is rejected while another request waits, even if the permits are
// available.
func (l *windowed) TryAcquire(permits int) Lease {
	if k, decided := l.try(permits, false); decided {
		return k
	}
	return l.tryAcquireSlow(permits)
}

// try decides a request that depends on what is taken alone; decided is false for others. A quiet
// one leaves no trace if it does not grant.
func (l *windowed) try(n int, quiet bool) (k Lease, decided bool) {
	l.mu.Lock()
	s := l.simpleLocked(n)
	if s == nil {
		l.mu.Unlock()
		return Lease{}, false
	}
	now := l.nowLocked(s)
	if s.Calendar != nil && now >= s.End() {
		l.rollLocked(now)
		s = l.settings.Load()
	}
	left, fullAt, readyAt, ok := l.segments.Try(&s.Terms, now, n)
	l.countLocked(ok, quiet)
	l.mu.Unlock()
	if quiet && !ok {
		return Lease{}, true
	}
	k = s.decision(now, n, left, fullAt, readyAt, ok)
	if ok && now < s.From {
		k.at = s.From // Settle knows the window by it
	}
	return k, true
}

// TryQuietly is TryAcquire that leaves no trace if it does not grant: see [TryQuietly].
func (l *windowed) TryQuietly(permits int) (Lease, bool) {
	if k, decided := l.try(permits, true); decided {
		return k, k.Acquired()
	}
	return l.tryQuietlySlow(permits)
}

// Acquire takes permits, waiting for them if necessary and if the queue has room. If ctx is
// done, before or during the wait, Acquire returns ctx.Err(), unchanged, and keeps no permits.
// Under automatic replenishment, a request whose wait would outlast ctx's deadline is rejected
// at once, with an error that also matches [context.DeadlineExceeded].
func (l *windowed) Acquire(ctx context.Context, permits int) (Lease, error) {
	if ctx.Err() == nil {
		if k, _ := l.try(permits, true); k.Acquired() {
			return k, nil
		}
	}
	return l.acquireSlow(ctx, permits)
}

// ReplenishmentPeriod returns the time from one replenishment to the next: the length of the
// window, or of its segment, rounded down to the nanosecond.
func (l *windowed) ReplenishmentPeriod() time.Duration {
	t := l.inForce()
	if t.Calendar != nil {
		now := l.lock()
		t = l.settings.Load()
		l.unlock(now)
	}
	return time.Duration(t.Span / int64(max(t.Step, 1)))
}

func (l *windowed) describeWindow(kind string) string {
	t := l.inForce()
	if t.Calendar != nil {
		return l.describe(kind + " of a " + t.calendar.String())
	}
	kind += " of " + time.Duration(t.Span).String()
	if t.Step > 1 {
		kind += fmt.Sprintf(" in %d segments", t.Step)
	}
	return l.describe(kind)
}
