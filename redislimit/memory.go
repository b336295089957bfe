package redislimit

import "time"

// memory remembers the store's replies, so that the limiter needs fewer calls. The engine's mutex guards it.
type memory struct {
	at       time.Time // of the latest reply, in whole microseconds; zero if there was none
	left     int       // permits that were available then
	fullAt   time.Time // when all permits are back if no more are taken
	forecast forecast  // from at on
	refusal  refusal   // the latest

	// Of a calendar window:
	ahead  time.Duration // how far the server's clock is ahead of this process's
	window int64         // the length of the current window in microseconds; 0 if it is not known

	prefetch prefetch
}

// refusal says that a number of permits, and more, are not available until an instant.
type refusal struct {
	permits int
	at      time.Time // when they could be granted
	until   time.Time // it is remembered until then: at most a minute, because another process may return permits
}

const forgetAfter = time.Minute

// refusalOf returns a refusal of n permits, until an instant.
func refusalOf(n int, at, now time.Time) refusal {
	r := refusal{permits: max(n, 1), at: at, until: at}
	if soon := now.Add(forgetAfter); at.After(soon) {
		r.until = soon
	}
	return r
}

// since returns the whole microseconds from the latest reply to now.
func (m *memory) since(now time.Time) int64 { return max(int64(now.Sub(m.at)/time.Microsecond), 0) }

// forget drops the remembered refusal and the forecast. Call it when permits may have come back or the limits have changed.
func (m *memory) forget() { m.refusal, m.forecast.known = refusal{}, false }

// refuses reports whether n permits are known not to be available. Later replies may say that they come before the refusal ends.
func (m *memory) refuses(n int, now time.Time) bool {
	n = max(n, 1)
	return m.forecast.known && n >= m.refusal.permits && now.Before(m.refusal.until) && m.forecast.available(m.since(now)) < n
}

// availableAt returns when n permits can be taken, or the earliest instant that is possible. It returns false if nothing is
// known.
func (m *memory) availableAt(n int, now time.Time) (time.Time, bool) {
	if !m.forecast.known {
		return time.Time{}, false
	}
	in := m.forecast.availableIn(m.since(now), n)
	if in == never && m.refuses(n, now) { // it is later than the instants that the store reports
		return m.refusal.at, true
	}
	return later(m.at, in), in != never
}

// later returns the instant that is micros microseconds after at. at is rounded down to the microsecond, as the server's clock is.
func later(at time.Time, micros int64) time.Time {
	return at.Add(lasts(micros) - time.Duration(at.Nanosecond()%1000))
}

// available estimates how many permits can be taken.
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
