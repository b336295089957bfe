package limitertest

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// rejected returns the number of permits of a try that fails now, and its RetryAfter; ok if there is such a number.
func (p *play) rejected() (n int, retry time.Duration, ok bool) {
	n = p.permits()
	if p.m.closed || p.m.holds && !p.letGo() || p.m.fits(n) || n == 0 && len(p.m.waiting) > 0 {
		return 0, 0, false
	}
	p.over = p.m.holds // of a chain, the second limiter may have requests wait now
	const most = 500
	retry, _ = core.RetryAfter.From(p.try(n))
	if retry <= 0 || retry > most*p.Refill {
		p.fatalf("RetryAfter of TryAcquire(%d) %s: %v, though %v refill all", n, &p.m, retry, p.Refill)
	}
	return n, retry, true
}

// slack returns how long before RetryAfter has passed a request must still be rejected.
func (p *play) slack() time.Duration { return p.grain() + p.Grain }

// await expects a request that is rejected to succeed when its RetryAfter has passed, and not earlier.
func (p *play) await() {
	if inQueue := len(p.m.waiting) > 0; inQueue != (p.part.name == retryInQueue) {
		p.wait()
		return
	}
	n, retry, ok := p.rejected()
	switch {
	case !ok:
	case len(p.m.waiting) > 0 && p.QueueOrder == core.NewestFirst:
		p.ignoresQueue(n, retry)
	case p.random.IntN(2) == 0 && p.QueueOrder != core.FairShare && !p.m.holds && p.m.admits(n) && p.reaches(queue):
		p.awaitGrant(n, retry)
	default:
		p.awaitTry(n, retry)
	}
}

// ignoresQueue expects RetryAfter not to change when one more request waits, as the newest is served first.
func (p *play) ignoresQueue(n int, retry time.Duration) {
	p.wait()
	if p.m.fits(n) {
		return
	}
	if got, _ := core.RetryAfter.From(p.try(n)); got != retry {
		p.fatalf("RetryAfter of TryAcquire(%d) %s: %v, and before: %v, want the same under newest-first", n, &p.m, got, retry)
	}
}

// awaitTry tries just before and after RetryAfter. In a fair queue, others may be served before.
func (p *play) awaitTry(n int, retry time.Duration) {
	p.pass(retry - p.slack())
	if p.l.TryAcquire(n).Acquired() {
		p.fatalf("TryAcquire(%d) before its RetryAfter of %v has passed: granted, want a rejection", n, retry)
	}
	p.m.rejected++
	if p.QueueOrder == core.FairShare && len(p.m.waiting) > 0 {
		p.catchUp()
		return
	}
	p.pass(p.slack())
	if got := p.l.Available(); got < max(n, 1) {
		p.fatalf("Available() after the RetryAfter of %v of TryAcquire(%d): %d", retry, n, got)
	}
	p.catchUp()
	p.try(n)
}

// awaitGrant has a request wait, with a deadline or without, and expects it to be granted as soon as RetryAfter has
// passed.
func (p *play) awaitGrant(n int, retry time.Duration) {
	limit := time.Duration(0)
	if len(p.m.waiting) == 0 && p.random.IntN(2) == 0 {
		limit = retry + p.grain()
	}
	due := time.Now().Add(retry)
	c := p.start(n, limit)
	p.decide(c)
	p.pass(retry - p.slack())
	c.mustWait("before its permits come back")
	p.pass(p.slack())
	if c.waits() || c.err == nil && c.at.Before(due.Add(-p.Grain)) {
		p.fatalf("Acquire(%d) %v after %v, want it granted after the RetryAfter of a try, %v", n, c, time.Since(due)+retry, retry)
	}
	p.catchUp()
}

// hopeless expects a request that cannot be served by its deadline to be rejected immediately, and to evict no waiter.
func (p *play) hopeless() {
	n, retry, ok := p.rejected()
	if !ok || n == 0 || !p.m.admits(n) || retry <= p.slack() {
		return
	}
	c := p.start(n, retry-p.slack())
	p.m.reject(c, "deadline too soon")
	p.live = append(p.live, c)
	p.compare()
	if !errors.Is(c.err, context.DeadlineExceeded) {
		p.fatalf("Acquire(%d) with a hopeless deadline: %v, want an error that is context.DeadlineExceeded", n, c.err)
	}
}

// replenishment expects all permits to be back after Refill, not earlier, or if that is manual in the next
// TryReplenish; and never more than the limit, however long the limiter is idle.
func replenishment(s *subject) {
	s.spends()
	if s.Manual {
		if s.replenish() {
			s.errorf("TryReplenish() with nothing due: true, want false")
		}
		s.pass(10 * s.Refill)
		s.has(0, "before TryReplenish")
		s.refused(1, "before TryReplenish")
		if !s.replenish() {
			s.errorf("TryReplenish() with all permits due: false, want true")
		}
	} else {
		s.pass(s.Refill - s.grain())
		if got := s.l.Available(); got >= s.Limit {
			s.errorf("Available() just before Refill: %d, want less than %d", got, s.Limit)
		}
		s.refused(s.Limit, "just before Refill")
		s.pass(s.grain())
	}
	if r, ok := s.l.(core.Replenisher); ok && r.ReplenishmentPeriod() > 0 {
		if r.AutoReplenishing() == s.Manual {
			s.errorf("AutoReplenishing(): %v, want %v", !s.Manual, s.Manual)
		}
		if r.TryReplenish() {
			s.errorf("TryReplenish() with nothing due: true, want false")
		}
	}
	s.has(s.Limit, "after Refill")
	rate(s)
	s.refill()
	s.pass(100 * s.Refill)
	for range 3 {
		s.refill()
	}
	s.has(s.Limit, "after a long time")
	s.empties()
	s.refused(1, "after all permits were taken together")
	if !s.Manual { // and as that was a whole number of windows:
		s.release()
		s.pass(s.Refill - s.grain())
		s.refused(s.Limit, "just before Refill, after a long time")
	}
}

// rate expects a limiter from which everything is taken as soon as it is back to grant no more than its rate allows. Of n
// Refills a window grants the limit n+1 times. A bucket whose period brings nearly the whole limit brings nearly twice the
// limit per Refill.
func rate(s *subject) {
	const refills, steps = 3, 32
	step := max(s.Refill/steps, s.grain())
	most := int64(min(s.Limit, math.MaxInt/(2*refills+1))) * (2*refills + 1)
	granted := int64(0)
	for start := time.Now(); time.Since(start) < refills*s.Refill; s.pass(step) {
		if s.Manual {
			s.replenish()
		}
		if n := s.l.Available(); n > 0 {
			granted += int64(s.takes(n).Permits())
			s.release()
		}
		if s.Limit < math.MaxInt/(2*refills+1) && granted > most {
			s.fatalf("%d permits granted in %v, want at most %d: %d come back in %v", granted, time.Since(start), most, s.Limit, s.Refill)
		}
	}
	s.pass(s.Refill)
}

// idleFor expects the limiter to be idle for at least as long as it has been seen idle, and no
// longer than all permits have been available.
func idleFor(s *subject) {
	idler := s.l.(core.Idler)
	look := func(want bool, when string) time.Duration {
		d, got := idler.IdleFor()
		if got != want || d < 0 || !got && d > 0 {
			s.errorf("IdleFor() %s: %v, %v, want idle to be %v", when, d, got, want)
		}
		return d
	}
	idle := func(since time.Time, when string) {
		seen, first := time.Now(), look(true, when)
		s.pass(time.Second)
		d := look(true, when)
		least, most := time.Since(seen), time.Since(since)
		if d <= least-s.grain() || d >= most+s.grain() {
			s.errorf("IdleFor() %s, first %v and then %v: want %v at least, %v at most", when, first, d, least, most)
		}
	}
	idle(s.made, "of a new limiter")
	if s.unlimited() {
		return
	}
	s.takes(1)
	look(false, "with a permit taken")
	last := time.Now()
	s.restock()
	idle(last, "with all permits back")
}
