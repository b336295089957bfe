package adaptive

import (
	"time"

	"github.com/sluice-go/sluice/internal/bound"
	"github.com/sluice-go/sluice/internal/direct"
)

// How a Concurrency learns from what its leases tell.

// The values of Concurrency.turn.
const (
	idle    = iota // nobody learns, and the queue is empty
	busy           // somebody learns
	waiting        // somebody learns, and there is more in the queue
)

// mostQueued is how many samples wait for a slow Algorithm; of more than that only drops are
// kept.
const mostQueued = 1 << 16

// counter is an Algorithm that most samples tell nothing new: they are only counted, which
// costs much less than a call of Next that the user's code may be in.
type counter interface {
	// count takes a success that changes nothing of what is wanted. If it may, it returns
	// false and has done nothing; then the sample is for Next. It must not panic.
	count(limit, inFlight int, granted, held time.Duration) bool
}

// ending is what a limiter learns from.
type ending struct {
	direct.End

	cause direct.Cause
}

// hook is a Concurrency as core sees it.
type hook Concurrency

// Ended is told of each lease that held permits, after they are back, on the goroutine that
// released it.
func (h *hook) Ended(cause direct.Cause, e direct.End) {
	l := (*Concurrency)(h)
	if cause != direct.Released && cause != direct.Dropped {
		return
	}
	switch {
	case !l.turn.CompareAndSwap(idle, busy) && !l.gotTurn():
		l.endedSlow(ending{e, cause})
	case !l.counted(cause, e):
		l.learn(ending{e, cause})
	case !l.turn.CompareAndSwap(busy, idle):
		l.learnQueued()
	}
}

// gotTurn tries once more to get the turn, where it is mostly for a moment that somebody has it:
// to put a sample into the queue and take it out again is more work than to count it. The wait
// is that of core after a swap that failed: whoever has the turn works fastest if it is left
// alone for a while.
func (l *Concurrency) gotTurn() bool {
	if l.counter == nil {
		return false
	}
	for range 4096 {
	}
	return l.turn.CompareAndSwap(idle, busy)
}

// counted takes a sample by which the limit stays as it is, if that is known beforehand. It
// is this goroutine's turn.
func (l *Concurrency) counted(cause direct.Cause, e direct.End) bool {
	if l.counter == nil || cause != direct.Released {
		return false
	}
	// A limit that is wanted and not in force yet comes once half of the present one is used.
	limit := l.Limit()
	if l.wanted != limit && (l.wanted < limit || e.InFlight >= limit-e.InFlight) {
		return false
	}
	return l.counter.count(limit, e.InFlight, e.Granted, e.Held)
}

// endedSlow is Ended while somebody learns.
func (l *Concurrency) endedSlow(e ending) {
	l.mu.Lock()
	if len(l.queue) < mostQueued || e.cause == direct.Dropped {
		l.queue = append(l.queue, e)
	}
	l.mu.Unlock()
	for {
		// Whoever is busy may have looked into the queue before e was in it. If it is told so
		// while it is busy, it looks again; if it is done, looking is for this goroutine.
		if l.turn.CompareAndSwap(busy, waiting) || l.turn.Load() == waiting {
			return
		}
		if l.turn.CompareAndSwap(idle, waiting) {
			l.learnQueued()
			return
		}
	}
}

// learn learns from e, and from what comes meanwhile. It is this goroutine's turn.
func (l *Concurrency) learn(e ending) {
	ended := false
	defer func() { l.learnRest(ended) }()
	l.step(e)
	l.learnAll()
	ended = true
}

// learnQueued is learn where e is in the queue.
func (l *Concurrency) learnQueued() {
	ended := false
	defer func() { l.learnRest(ended) }()
	l.learnAll()
	ended = true
}

// learnAll learns from what is in the queue until it is empty, and ends the turn.
func (l *Concurrency) learnAll() {
	for l.next < len(l.batch) || !l.turn.CompareAndSwap(busy, idle) {
		if l.next == len(l.batch) {
			l.turn.Store(busy)
			l.mu.Lock()
			l.batch, l.queue = l.queue, l.batch[:0] // two buffers, in turn
			l.mu.Unlock()
			l.next = 0
			continue
		}
		e := l.batch[l.next]
		l.next++
		if !l.counted(e.cause, e.End) {
			l.step(e)
		}
	}
}

// learnRest does what is left if the user's code panicked or ended the goroutine, before that goes
// on. Whoever released the other samples is gone, so their panics are not told: the first one is
// on its way. And they must not pile up on the stack, as there may be any number.
func (l *Concurrency) learnRest(ended bool) {
	for !ended {
		func() {
			defer func() {
				if !ended && recover() == nil { // this ends the goroutine
					l.learnRest(false)
				}
			}()
			l.learnAll()
			ended = true
		}()
	}
}

// step learns from one sample.
func (l *Concurrency) step(e ending) {
	old := l.Limit()
	dropped := e.cause == direct.Dropped
	want := nan
	l.wanted = 0
	// A drop shrinks the limit, whatever becomes of the user's code.
	defer func() { l.move(old, bound.Next(old, l.o.Min, l.o.Max, e.InFlight, dropped, want)) }()
	want = l.o.Algorithm.Next(Sample{
		Limit:    old,
		InFlight: e.InFlight,
		Duration: e.Held,
		Dropped:  dropped,
		At:       l.base.Add(e.Granted + e.Held),
	})
	if !dropped { // what a drop calls for is not what the next sample does
		l.wanted = bound.Next(old, l.o.Min, l.o.Max, old, false, want)
	}
}

// move puts another limit in force.
func (l *Concurrency) move(old, next int) {
	if next == old {
		return
	}
	l.limit.Store(int64(next))
	l.watched.Resize(next)
	if l.o.OnChange != nil {
		l.o.OnChange(old, next)
	}
}
