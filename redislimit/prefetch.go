package redislimit

import (
	"math"
	"time"
)

// prefetch holds permits that were taken in advance, to be spent without a call of the store.
type prefetch struct {
	permits int64
	stamp   stamp     // of their grant
	until   time.Time // from then on they could have come back, and are not spent

	spent  bool        // some were spent since the timer was set
	used   int64       // permits that requests took since the latest call
	called time.Time   // when the latest call was sent
	timer  *time.Timer // returns unused permits; nil if none were prefetched
}

const (
	prefetchFor = 10 * time.Millisecond  // how long prefetched permits should last
	unusedAfter = 500 * time.Millisecond // after that they are returned
)

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

// spentStamp returns the stamp of the permits that were spent last, as if each request had taken its own: those that are still
// prefetched had not been taken yet.
func (p *prefetch) spentStamp() stamp {
	s := p.stamp
	s.missing = max(s.missing-p.permits, 0)
	return s
}

// giveBack empties p and returns the operation that returns the permits, or nil if there are none.
func (p *prefetch) giveBack(now time.Time) *operation {
	n := p.left(now)
	p.permits = 0
	if n == 0 {
		return nil
	}
	return giveOp(int64(n), p.stamp)
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

// prefetchedLocked makes the permits that a call prefetched available to the next requests.
func (e *Limiter) prefetchedLocked(c *call) {
	got := c.reply.last
	if got.done == 0 {
		return
	}
	p := &e.memory.prefetch
	ends := got.reset
	if c.limits.window() {
		ends = c.reply.ends
	}
	// The time counts from before the call was sent, because the server's instant was not earlier.
	p.permits, p.stamp, p.until = min(got.done, c.prefetch), got.stamp, later(c.sent, ends)
	switch {
	case c.limits != e.limits && !c.limits.sameRate(e.limits): // there was an Update since the call was sent
		p.permits = 0
	case e.closed: // Close waits for this call, and for the one that returns the permits
		e.returnPrefetchedLocked(time.Now())
	case p.timer == nil:
		p.spent = false
		p.timer = time.AfterFunc(unusedAfter, e.returnUnused)
	}
}

// returnUnused has the prefetched permits returned if none of them was spent since the timer was set. If some were, it sets the
// timer again.
func (e *Limiter) returnUnused() {
	e.mu.Lock()
	defer e.unlock()
	p := &e.memory.prefetch
	p.timer = nil
	switch now := time.Now(); {
	case e.closed || p.left(now) == 0:
	case p.spent:
		p.spent = false
		p.timer = time.AfterFunc(unusedAfter, e.returnUnused)
	default:
		e.returnPrefetchedLocked(now)
	}
}

func (e *Limiter) returnPrefetchedLocked(now time.Time) {
	if back := e.memory.prefetch.giveBack(now); back != nil {
		e.addLocked(back, now)
	}
}
