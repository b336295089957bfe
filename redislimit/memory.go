package redislimit

import "time"

// memory is what a limiter remembers of the store's answers, so that it needs to ask less. The
// engine's mutex guards it.
type memory struct {
	at       time.Time // of the latest answer; zero: there was none
	left     int       // permits that were available then
	fullAt   time.Time // all permits are back, if nobody takes more
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

// forget is for when permits may have come back, or the limits are others.
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
func (m *memory) available(l *limits, now time.Time) int {
	left := m.left
	switch {
	case m.forecast.known && m.forecast.limits == l:
		left = m.forecast.available(m.since(now))
	case l.rate() && !now.Before(m.fullAt):
		left = l.limit
	}
	return min(left+m.prefetch.left(now), l.limit)
}

// reset estimates the microseconds until all permits are back.
func (m *memory) reset(now time.Time) int64 { return microseconds(m.fullAt.Sub(now)) }
