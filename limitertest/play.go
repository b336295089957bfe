package limitertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/core"
)

// A play is a random sequence of calls to a limiter. After each call the limiter and a model must
// agree: which requests are granted, rejected or wait, how many permits are available, and what the statistics
// count. The first difference ends the play.
type play struct {
	*subject
	m      model
	random *rand.Rand
	move   func(*play)   // the call that the part under test is about
	moves  []func(*play) // those of the parts up to that one; nil for a part without

	live     []*call // waiting when last compared, or new
	holdings []*holding
	owed     bool // there has been a debt
	resets   int
	phrase   string // reason phrase of failed tries
	over     bool   // the model cannot predict the next calls
}

// maxCalls is how many calls may wait in a play, except where a step fills the queue.
const maxCalls = 20

// holding is a lease of a play.
type holding struct {
	core.Lease

	at       time.Time // time of the grant
	resets   int       // before the grant
	spent    bool      // settled or refunded
	released bool
}

// permits returns a number of permits at which the limiter's decision may change.
func (p *play) permits() int {
	left, room := p.m.available(), p.m.room-p.m.queued()
	n := []int{0, 1, 1, 2, left, left + 1, room, room + 1, p.m.room + 1, p.m.limit, 1 + p.random.IntN(min(p.m.limit, 1<<20))}
	return min(max(n[p.random.IntN(len(n))], 0), p.m.limit)
}

func (p *play) try(n int) core.Lease {
	fits := p.m.fits(n)
	l := p.l.TryAcquire(n)
	p.inspect(l)
	switch err := l.Err(); {
	case p.m.closed:
		if l.Acquired() || !errors.Is(err, core.ErrClosed) {
			p.fatalf("TryAcquire(%d) after Close: acquired %v, %v, want core.ErrClosed", n, l.Acquired(), err)
		}
	case l.Acquired() != fits:
		p.fatalf("TryAcquire(%d) %s: acquired %v (%v), want %v", n, &p.m, l.Acquired(), err, fits)
	case fits:
		p.wantPermits(l, n, "TryAcquire")
		p.m.granted++
		p.m.take(n)
		p.hold(&holding{Lease: l, at: time.Now(), resets: p.resets})
	case !errors.Is(err, core.ErrRejected):
		p.fatalf("TryAcquire(%d) %s: %v, want an error that is core.ErrRejected", n, &p.m, err)
	default:
		p.m.rejected++
		p.phrase, _ = core.ReasonPhrase.From(l)
	}
	p.compare()
	return l
}

// acquire calls Acquire, unless it would wait where requests must not.
func (p *play) acquire(n int) {
	waits := !p.m.fits(n) && p.m.admits(n)
	if len(p.m.waiting) >= maxCalls || waits && !p.reaches(queue) {
		return
	}
	mortal := waits && !p.m.timed && p.Gate == nil && p.mortal() == nil && p.random.IntN(4) == 0
	limit := time.Duration(0)
	if mortal {
		limit = time.Second
	}
	c := p.start(n, limit)
	c.mortal = mortal
	p.decide(c)
}

// mortal returns the waiter whose context has a deadline, nil if there is none.
func (p *play) mortal() *call {
	if i := slices.IndexFunc(p.m.waiting, func(c *call) bool { return c.mortal }); i >= 0 {
		return p.m.waiting[i]
	}
	return nil
}

// decide expects a call to end or wait as the model predicts.
func (p *play) decide(c *call) {
	p.m.acquire(c)
	p.live = append(p.live, c)
	p.compare()
}

// hold remembers a lease that was granted. One of no permits has no identity.
func (p *play) hold(h *holding) {
	p.leases = append(p.leases, h.Lease)
	if h.Permits() > 0 {
		p.holdings = append(p.holdings, h)
	}
}

// pick returns one of the leases, often the newest; nil if there are none. From time to time it forgets those that are spent.
func (p *play) pick() *holding {
	if p.random.IntN(4) == 0 {
		p.holdings = slices.DeleteFunc(p.holdings, func(h *holding) bool { return h.spent || h.released && p.m.holds })
	}
	if len(p.holdings) == 0 {
		return nil
	}
	i := p.random.IntN(2 * len(p.holdings))
	return p.holdings[min(i, len(p.holdings)-1)]
}

// compare expects the limiter and the model to agree about which requests wait, how many permits are available,
// and what the statistics count.
func (p *play) compare() {
	synctest.Wait()
	p.live = slices.DeleteFunc(p.live, func(c *call) bool {
		waits := slices.Contains(p.m.waiting, c)
		p.agree(c, waits)
		return !waits
	})
	left := p.m.available()
	got := p.l.Available()
	if got == 0 && p.promises() {
		left = 0
	}
	if got != left {
		p.fatalf("Available(): %d, want %d", got, left)
	}
	want := core.Statistics{
		Limit: p.m.limit, Available: left, Queued: p.m.queued(), Granted: p.m.granted, Rejected: p.m.rejected,
	}
	if st, ok := p.counts(); ok && st != want {
		p.fatalf("Statistics(): %v, want %v", st, want)
	}
}

// promises reports whether permits may be promised to those who wait, so that none are available.
func (p *play) promises() bool { return p.Grain > 0 && !p.m.holds && p.m.queued() > 0 }

// agree expects a call to wait, or to have ended as the model predicts.
func (p *play) agree(c *call, waits bool) {
	unchanged := errors.Is(c.want, context.Canceled) || errors.Is(c.want, context.DeadlineExceeded)
	switch {
	case waits:
		c.mustWait(p.m.String())
		return
	case c.waits():
		p.fatalf("Acquire(%d) waits, want it to end (%v)", c.n, c.want)
	case c.want == nil:
		if c.err != nil {
			p.fatalf("Acquire(%d) %v, want it granted", c.n, c)
		}
		p.wantPermits(c.lease, c.n, "Acquire")
		p.hold(&holding{Lease: c.lease, at: c.at, resets: p.resets, released: c.due.After(c.at)})
	case !errors.Is(c.err, c.want), unchanged && c.err != c.want: //nolint:errorlint // unchanged is the rule
		p.fatalf("Acquire(%d) %v, want: %v", c.n, c, c.want)
	default:
		c.matches("Acquire")
		p.wantReason(c)
	}
	p.inspect(c.lease)
}

// wantReason expects core's reason phrases from a limiter that uses one for a failed TryAcquire.
// Another limiter has phrases of its own, as a view that core.WithReason made.
func (p *play) wantReason(c *call) {
	got, ok := core.ReasonPhrase.From(c.lease)
	if ok && p.phrase == "permits exhausted" && c.reason != "" && got != c.reason && (!p.m.holds || !p.m.timed) {
		p.fatalf("ReasonPhrase of an Acquire: %q, want %q", got, c.reason)
	}
}

func (p *play) wantPermits(l core.Lease, n int, what string) {
	if !l.Acquired() || l.Permits() != n {
		p.fatalf("%s: a lease of %d permits, acquired %v, want %d", what, l.Permits(), l.Acquired(), n)
	}
}
