package limitertest

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
)

// await expects a request that is rejected, while others wait or while none does, to succeed when its RetryAfter has
// passed, and not earlier.
func (p *play) await(others bool) {
	if others != (len(p.m.waiting) > 0) {
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

// rejected returns the number of permits of a try that fails now, and its RetryAfter; ok if there is such a number.
func (p *play) rejected() (n int, retry time.Duration, ok bool) {
	n = p.permits()
	if p.m.closed || p.m.fits(n) || n == 0 && len(p.m.waiting) > 0 || p.m.holds && !p.letGo() {
		return 0, 0, false
	}
	p.over = p.m.holds // a chain's second limiter may have requests wait now
	const most = 500
	retry, _ = core.RetryAfter.From(p.try(n))
	if retry <= 0 || retry > most*p.Refill {
		p.fatalf("RetryAfter of TryAcquire(%d) %s: %v, though %v refill all", n, &p.m, retry, p.Refill)
	}
	return n, retry, true
}

// slack returns how long before RetryAfter has passed a request must still be rejected.
func (p *play) slack() time.Duration { return p.grain() + p.Grain }

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
