package redislimit

import (
	"math"
	"time"
)

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
func (p *prefetch) giveBack(now time.Time) *operation {
	n := p.left(now)
	p.permits, p.unused = 0, false
	if n == 0 {
		return nil
	}
	return giveBack(int64(n), p.stamp)
}

// closeLocked stops the timer, and has what is left given back, if the store is there.
func (p *prefetch) closeLocked(now time.Time, reachable bool) {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.unused = p.left(now) > 0 && reachable
}

// wanted returns how many permits a call at now should prefetch, in addition to those that it
// takes; ahead is [StoreOptions].Prefetch.
func (p *prefetch) wanted(l *limits, ahead int, takes int64, now time.Time) int64 {
	used, passed := p.used, now.Sub(p.called)
	p.used, p.called = 0, now
	switch {
	case takes == 0 || !l.rate() || ahead == 1:
		return 0
	case ahead > 1:
		return max(int64(ahead)-takes, 0)
	}
	share := l.perSecond() * prefetchFor.Seconds()
	return int64(math.Min(float64(used)*float64(prefetchFor)/float64(max(passed, 1)), share))
}

// prefetchedLocked puts what was taken in advance at the disposal of the next requests.
func (e *engine) prefetchedLocked(c *call, a answer) {
	p := &e.memory.prefetch
	ends := a.reset
	if c.limits.window() {
		ends = c.reply.ends
	}
	// It counts from before the call was sent: the server's instant was not earlier.
	p.permits, p.stamp, p.until = a.done, a.stamp, later(c.sent, ends)
	switch {
	case e.closed: // Close waits for this call, and for what it leads to
		p.unused = true
	case p.timer == nil:
		p.spent = false
		p.timer = time.AfterFunc(unusedAfter, e.giveBackUnused)
	}
}

// giveBackUnused gives back what was prefetched if nothing of it was spent since the latest look: within twice unusedAfter once
// nobody asks.
func (e *engine) giveBackUnused() {
	e.mu.Lock()
	defer e.unlock()
	p := &e.memory.prefetch
	p.timer = nil
	if p.left(time.Now()) == 0 {
		return
	}
	if p.spent && !e.closed {
		p.spent = false
		p.timer = time.AfterFunc(unusedAfter, e.giveBackUnused)
		return
	}
	p.unused = true
}
