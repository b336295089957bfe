package redislimit

import (
	"math"
	"slices"
	"time"
)

// cache is what the store's replies said. It decides a request here, or says that the store has to be called. It is a value: it
// has no lock, clock, timer or goroutine, and calls nobody.
type cache struct {
	limits   *limits
	at       time.Time // time of the latest reply, in whole microseconds; zero if there was none
	left     int       // permits that were available then
	fullAt   time.Time // when all permits are back if no more are taken
	forecast forecast  // forecast from the time at on
	refusal  refusal   // the latest

	// Of a calendar window:
	ahead  time.Duration // how far the server's clock is ahead of this process's
	window int64         // the length of the current window in microseconds; 0 if it is not known

	prefetch prefetch
	tickets  tickets // tickets of waiters; their permits are taken in the store
}

// refusal says that a number of permits, and more, are not available until a time.
type refusal struct {
	permits int
	at      time.Time // when they could be granted
	until   time.Time // it is remembered until then
}

// prefetch holds permits that were taken in advance, to be spent without a call of the store.
type prefetch struct {
	permits int64
	stamp   stamp     // stamp of their grant
	until   time.Time // expiry: the store may have added the permits by then, so they must not be spent later

	spent  bool      // some were spent since the latest look
	used   int64     // permits that requests took since the latest call
	called time.Time // when the latest call was sent
	lookAt time.Time // when to return them if none was spent since the latest look; zero if there are none
}

// verdict is what the cache says of a request.
type verdict uint8

const (
	ask verdict = iota
	here
	refused
)

const (
	prefetchFor = 10 * time.Millisecond  // how long prefetched permits should last
	unusedAfter = 500 * time.Millisecond // after that they are returned
	forgetAfter = time.Minute            // a refusal is remembered no longer: another process may return permits
)

// decide decides a request for n permits. If it grants, the result is that of the grant.
func (c *cache) decide(n int, now time.Time) (verdict, result) {
	switch {
	case c.prefetch.spend(n, now):
		s := c.prefetch.stamp
		s.missing = max(s.missing-c.prefetch.permits, 0) // those that are still prefetched had not been taken yet
		return here, result{left: c.available(now), reset: c.reset(now), stamp: s, window: c.window}
	case c.refuses(n, now):
		return refused, result{}
	}
	return ask, result{}
}

// learn remembers the state that a reply reports. at is when it came.
func (c *cache) learn(r *reply, of *limits, at time.Time) {
	c.at, c.left, c.fullAt = later(at, 0), r.last.left, later(at, r.last.reset)
	c.forecast = r.forecast
	if c.window = r.window; of.ofCalendar() {
		c.ahead = time.UnixMicro(r.now).Sub(at.Round(0))
	}
	if of != c.limits { // there was an Update since the call was sent
		c.forget()
		c.window = 0
	}
}

// refused remembers that n permits were refused, and returns when they could be granted; zero if that is not known.
func (c *cache) refused(n int, r result, at time.Time) {
	if r.retry > 0 {
		ready := later(at, r.retry)
		c.refusal = refusal{max(n, 1), ready, ready}
		if soon := at.Add(forgetAfter); ready.After(soon) {
			c.refusal.until = soon
		}
	}
}

// forget drops the remembered refusal and the forecast. Call it when permits may have been returned or the limits have
// changed.
func (c *cache) forget() { c.refusal, c.forecast.known = refusal{}, false }

// update puts other limits.
func (c *cache) update(l *limits) {
	if !l.sameRate(c.limits) {
		c.prefetch.permits = 0 // when they are returned is counted differently now
	}
	c.limits, c.window = l, 0
	c.forget()
}

// since returns the whole microseconds from the latest reply to now.
func (c *cache) since(now time.Time) int64 { return max(int64(now.Sub(c.at)/time.Microsecond), 0) }

// refuses reports whether n permits are known not to be available. Later replies may say that they come before the refusal ends.
func (c *cache) refuses(n int, now time.Time) bool {
	f := c.forecast
	if n == 0 { // it takes nothing, so it needs no permit that is not promised
		f = c.unpromised()
	}
	n = max(n, 1)
	return c.limits.rate() && c.forecast.known && n >= c.refusal.permits && now.Before(c.refusal.until) && f.available(c.since(now)) < n
}

// readyAt returns the first time at which n permits can be taken, which may be over. It returns false if that is not known.
func (c *cache) readyAt(n int, now time.Time) (time.Time, bool) {
	if c.forecast.known && c.limits.rate() {
		if in := c.forecast.availableIn(c.since(now), n); in != never {
			return later(c.at, in), true
		}
	}
	// The time may be later than those that the store reports.
	return c.refusal.at, n >= c.refusal.permits && now.Before(c.refusal.until)
}

// available estimates how many permits can be taken: none while the waiters of this process have been promised permits.
func (c *cache) available(now time.Time) int {
	if len(c.tickets.out) > 0 {
		return 0
	}
	return c.unclaimed(now)
}

// unclaimed estimates how many permits are there, be they promised to waiters of this process or not.
func (c *cache) unclaimed(now time.Time) int {
	left, l := c.left, c.limits
	switch {
	case c.forecast.known && c.forecast.limits == l:
		f := c.unpromised()
		left = f.available(c.since(now))
	case l.rate() && !now.Before(c.fullAt):
		left = l.limit
	}
	return min(left+c.prefetch.left(now), l.limit)
}

// unpromised returns the forecast as if the waiters of this process had not been promised permits: as in core, nobody takes the permits
// before the waiters, but they are there. Other processes see none while tickets are out.
func (c *cache) unpromised() forecast {
	f := c.forecast
	if len(c.tickets.out) == 0 || !f.known {
		return f
	}
	if f.limits.kind == kindBucket {
		f.taken, f.age = f.own.taken, f.own.age
		return f
	}
	f.taken = max(f.taken-int64(c.tickets.permits()), 0)
	f.returns = slices.Clone(f.returns)
	for _, one := range c.tickets.out {
		for i := range f.returns {
			r := &f.returns[i]
			if f.at+r.at == one.result.stamp.at {
				r.permits = max(r.permits-int64(one.permits), 0)
			}
		}
	}
	f.returns = slices.DeleteFunc(f.returns, func(r comeback) bool { return r.permits == 0 })
	return f
}

// reset estimates the microseconds until all permits are back.
func (c *cache) reset(now time.Time) int64 {
	if len(c.tickets.out) > 0 && c.forecast.known && c.forecast.limits == c.limits {
		f := c.unpromised()
		return max(f.fullAt()-c.since(now), 0)
	}
	return microseconds(c.fullAt.Sub(now))
}

// left returns how many permits can be spent.
func (p *prefetch) left(now time.Time) int {
	if p.permits == 0 || !now.Before(p.until) {
		return 0
	}
	return int(p.permits)
}

// spend takes n permits if they are there. A zero-permit request needs one, and takes none.
func (p *prefetch) spend(n int, now time.Time) bool {
	if p.permits == 0 || p.left(now) < max(n, 1) {
		return false
	}
	p.permits -= int64(n)
	p.spent = true
	p.used += int64(n)
	return true
}

// put adds what a call has prefetched. sent is when it was sent: the server's instant was not earlier.
func (p *prefetch) put(got result, ends int64, sent, now time.Time) {
	p.permits, p.stamp, p.until = got.done, got.stamp, later(sent, ends)
	if p.lookAt.IsZero() {
		p.spent, p.lookAt = false, now.Add(unusedAfter)
	}
}

// look empties p if nothing was spent since the latest look, and returns how many permits are to be returned.
func (p *prefetch) look(now time.Time) int64 {
	switch {
	case p.lookAt.IsZero() || now.Before(p.lookAt):
	case p.spent && p.left(now) > 0:
		p.spent, p.lookAt = false, now.Add(unusedAfter)
	default:
		p.lookAt = time.Time{}
		return p.empty(now)
	}
	return 0
}

// empty empties p, and returns how many permits it had.
func (p *prefetch) empty(now time.Time) int64 {
	n := p.left(now)
	p.permits = 0
	return int64(n)
}

// wanted returns how many permits a call should prefetch in addition to those that it requests. limit is
// [Options].Prefetch.
func (p *prefetch) wanted(l *limits, limit int, requested int64, now time.Time) int64 {
	used, passed := p.used, now.Sub(p.called)
	p.used, p.called = 0, now
	switch {
	case requested == 0 || !l.rate() || limit == 1:
		return 0
	case limit > 1:
		return max(int64(limit)-requested, 0)
	}
	share := l.perSecond() * prefetchFor.Seconds()
	return int64(math.Min(float64(used)*float64(prefetchFor)/float64(max(passed, 1)), share))
}

// later returns the time that is micros microseconds after at. at is rounded down to the microsecond, as the server's clock is.
func later(at time.Time, micros int64) time.Time {
	return at.Add(lasts(micros) - time.Duration(at.Nanosecond()%1000))
}
