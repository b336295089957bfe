package redislimit

import (
	"math"
	"time"
)

// memory is what a limiter remembers of the store's answers, so that it needs to ask less. The
// engine's mutex guards it.
type memory struct {
	at       time.Time // of the latest answer; zero: there was none
	left     int       // permits that were available then
	whole    time.Time // all permits are back, if nobody takes more
	forecast forecast  // from at on
	refused  refusal   // the latest

	// Of a calendar:
	ahead  time.Duration // how far the server's clock is ahead of this process'
	window int64         // the length of the window in force, in microseconds; 0: not known

	prefetch prefetch
}

// refusal says that a number of permits, and more, are not available until an instant.
type refusal struct {
	permits int
	until   time.Time
}

// since returns the whole microseconds from the latest answer to now.
func (m *memory) since(now time.Time) int64 { return max(int64(now.Sub(m.at)/time.Microsecond), 0) }

// forget is for when permits may have come back, or the terms are others.
func (m *memory) forget() { m.refused, m.forecast.known = refusal{}, false }

// refuses reports whether n permits are known not to be available.
func (m *memory) refuses(n int, now time.Time) bool {
	return m.forecast.known && max(n, 1) >= m.refused.permits && now.Before(m.refused.until)
}

// ready returns when n permits can be taken, or the earliest that is possible; false: nothing is
// known.
func (m *memory) ready(n int, now time.Time) (time.Time, bool) {
	if !m.forecast.known {
		return time.Time{}, false
	}
	due := m.forecast.ready(m.since(now), n)
	if due == never && m.refuses(n, now) { // it is later than what the store reports
		return m.refused.until, true
	}
	return later(m.at, due), due != never
}

// later returns the instant micros microseconds after at.
func later(at time.Time, micros int64) time.Time { return at.Add(lasts(micros)) }

// available estimates what can be taken.
func (m *memory) available(t *terms, now time.Time) int {
	left := m.left
	switch {
	case m.forecast.known && m.forecast.terms == t:
		left = m.forecast.available(m.since(now))
	case t.rate() && !now.Before(m.whole):
		left = t.limit
	}
	return min(left+m.prefetch.left(now), t.limit)
}

// reset estimates the microseconds until all permits are back.
func (m *memory) reset(now time.Time) int64 { return microseconds(m.whole.Sub(now)) }

// prefetch is what was taken in advance, to be spent without asking the store.
type prefetch struct {
	permits int64
	stamp   stamp     // of the grant
	until   time.Time // then they could have come back, and may not be spent any more

	spent  bool      // since the latest look, one was
	used   int64     // permits that were taken since the latest call
	called time.Time // when that was
	timer  *time.Timer
	unused bool // they are to be given back, by the next call
}

const (
	prefetchFor = 10 * time.Millisecond  // how long what is prefetched should last
	unusedAfter = 500 * time.Millisecond // then it is given back
)

// left returns how many permits can be spent.
func (p *prefetch) left(now time.Time) int {
	if p.permits == 0 || !now.Before(p.until) {
		return 0
	}
	return int(p.permits)
}

// spend takes n permits if they are there; a zero-permit request needs one, and takes none.
func (p *prefetch) spend(n int, now time.Time) bool {
	if p.permits == 0 || p.left(now) < max(n, 1) {
		return false
	}
	p.permits -= int64(n)
	p.spent = true
	p.used += int64(n)
	return true
}

// giveBack empties p into an operation that gives the permits back; nil: there are none.
func (p *prefetch) giveBack(now time.Time) *request {
	n := p.left(now)
	p.permits, p.unused = 0, false
	if n == 0 {
		return nil
	}
	return newRequest(op{code: opGive, permits: int64(n), stamp: p.stamp})
}

// wanted returns how many permits a call at now should prefetch, in addition to those that it
// takes; ahead is [Shared].Ahead.
func (p *prefetch) wanted(t *terms, ahead int, takes int64, now time.Time) int64 {
	used, passed := p.used, now.Sub(p.called)
	p.used, p.called = 0, now
	switch {
	case takes == 0 || !t.rate() || ahead == 1:
		return 0
	case ahead > 1:
		return max(int64(ahead)-takes, 0)
	}
	share := t.perSecond() * prefetchFor.Seconds()
	return int64(math.Min(float64(used)*float64(prefetchFor)/float64(max(passed, 1)), share))
}
