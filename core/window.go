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
	segments windowAccount
}

// The word of a window's epoch:
//
//	63     61          42 41                     0
//	shut    generation             free
//
// free: permits that may be taken in the segment that ends at the ticket's until. Opening the
// word takes a generation, so that no swap that was prepared before it, for another segment,
// succeeds after it.
const windowMask = generationOne - 1

// TryAcquire takes permits if they are available now. It never blocks. If the limiter serves
// the oldest first, TryAcquire is rejected while another request waits, even if the permits are
// available.
func (l *windowed) TryAcquire(permits int) Lease {
	if k, ok := l.tryQuietly(permits); ok {
		return k
	}
	return l.tryAcquireSlow(permits)
}

// Acquire takes permits, waiting for them if necessary and if the queue has room. If ctx is
// done, before or during the wait, Acquire returns ctx.Err(), unchanged, and keeps no permits.
// Under automatic replenishment, a request whose wait would outlast ctx's deadline is rejected
// at once, with an error that also matches [context.DeadlineExceeded].
func (l *windowed) Acquire(ctx context.Context, permits int) (Lease, error) {
	if ctx.Err() == nil {
		if k, ok := l.tryQuietly(permits); ok {
			return k, nil
		}
	}
	return l.acquireSlow(ctx, permits)
}

// tryQuietly takes n permits if that needs no mutex: the word has them, and no request waits.
// Otherwise it leaves no trace.
func (l *windowed) tryQuietly(n int) (Lease, bool) {
	t := l.epoch.Load()
	if t == nil || uint64(n) > maxPermits {
		return Lease{}, false
	}
	for {
		w := t.word.Load()
		if uint64(n)-1 >= w&windowMask || w&shut != 0 || w&generationMask == generationMask {
			return Lease{}, false
		}
		// The word is read before the clock and swapped after it. If it was opened in between,
		// its generation is another and the swap fails; so it was open for the segment of now.
		now := t.clock()
		if !t.inSegment(now) {
			return Lease{}, false
		}
		next := w + generationOne - uint64(n)
		if t.word.CompareAndSwap(w, next) {
			return Lease{
				t: t, bits: next&generationMask | uint64(n)<<outcomeBits | uint64(taken),
				state: int64(next & windowMask), at: now,
			}, true
		}
	}
}

// inSegment reports whether now is in the segment for which the word is open. If the clock went
// back, it is before the window.
func (t *ticket) inSegment(now int64) bool {
	until := t.until.Load()
	return until-t.Span <= now && now < until
}

// windowFigures: a window's lease has what was left in its state.
func (t *terms) windowFigures(state, at int64) (left int, reset int64) {
	if t.Manual() {
		return int(state), -1
	}
	return int(state), t.Back(t.Segment(at)) - at
}

// ReplenishmentPeriod returns the time from one replenishment to the next: the length of the
// window, or of its segment, rounded down to the nanosecond.
func (l *windowed) ReplenishmentPeriod() time.Duration {
	t := l.terms()
	return time.Duration(t.Span / int64(max(t.Step, 1)))
}

func (l *windowed) describeWindow(kind string) string {
	t := l.terms()
	kind += " of " + time.Duration(t.Span).String()
	if t.Step > 1 {
		kind += fmt.Sprintf(" in %d segments", t.Step)
	}
	return l.describe(kind)
}

// segments is the account of a window.
type windowAccount struct{ machine.Segments }

func (s *windowAccount) seen(t *ticket, _ uint64) int64 {
	return t.Begin(t.Segment(t.until.Load() - 1))
}

func (s *windowAccount) takeBack(e *engine, t *ticket, w uint64, _ int64) {
	s.TakeIn(t.Segment(t.until.Load()-1), e.m.Available()-int(w&windowMask))
}

func (s *windowAccount) lend(e *engine, t *ticket, now int64) (w uint64, ok bool) {
	free := e.m.Available()
	if free == 0 || uint64(free) > windowMask {
		return 0, false
	}
	t.until.Store(t.Begin(t.Segment(now) + 1))
	e.granted.Add(^uint64(0))
	return t.word.Load()&^shut + generationOne | uint64(free), true
}

func (s *windowAccount) grant(e *engine, a machine.Answer, n int) Lease {
	t, generation := e.nextGeneration(a.At)
	return grant(t, taken, generation, n, int64(a.Left), a.At)
}
