package redislimit

import (
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// A ticket is a number of permits that are this process's from a time on, at which the store counts them as taken. The waiters of all
// processes are served in the order in which they took their tickets, with one call for each. The queue says whose the permits are.
type ticket struct {
	permits int
	at      time.Time
	due     int64     // the same by the server's clock
	sent    time.Time // when the call that took it was sent
	result  result
}

// tickets are those of a rate limiter's waiters. A ticket is used at its time, or goes back, so that nothing is granted at another
// time than the store counts it.
type tickets struct {
	out     []ticket     // the earliest first
	back    []*operation // return tickets: the first operations of the next call
	gap     bool         // a waiter is gone that was not the last
	renewed time.Time    // when they were last returned to be taken anew
	stalled time.Time    // the store has refused a ticket, so it is not called again before
}

// permits returns how many permits the waiters have been promised.
func (t *tickets) permits() int {
	n := 0
	for _, one := range t.out {
		n += one.permits
	}
	return n
}

// last returns when the last of them is due by the server's clock, 0 if there is none.
func (t *tickets) last() int64 {
	if len(t.out) == 0 {
		return 0
	}
	return t.out[len(t.out)-1].due
}

// from reports whether one of them was taken by the call that was sent at a given time.
func (t *tickets) from(sent time.Time) bool {
	return slices.ContainsFunc(t.out, func(one ticket) bool { return one.sent.Equal(sent) })
}

// covers returns when the tickets have brought n permits; false if they are fewer.
func (t *tickets) covers(n int) (time.Time, bool) {
	at := time.Time{}
	for _, one := range t.out {
		if n <= 0 {
			break
		}
		n, at = n-one.permits, one.at
	}
	return at, n <= 0
}

// uniform reports whether all are for as many permits.
func (t *tickets) uniform() bool {
	return !slices.ContainsFunc(t.out, func(one ticket) bool { return one.permits != t.out[0].permits })
}

// promised reports whether waiters get tickets: the permits become available with time, and no newer request goes
// first.
func (l *limits) promised() bool {
	return l.rate() && l.order != core.NewestFirst
}

// promisedLocked reports whether those who wait get tickets. If there is a reservation, all do.
func (e *Limiter) promisedLocked() bool {
	return e.limits.promised() || e.queue.Reserves()
}

// promisesLocked reports whether there are permits that are promised to waiters of this process.
func (e *Limiter) promisesLocked(now time.Time) bool {
	return len(e.cache.tickets.out) > 0 && e.cache.unclaimed(now) > 0
}

// zeroLocked returns the grant of no permits.
func (e *Limiter) zeroLocked(got result, now time.Time) given {
	return given{result: result{left: e.cache.available(now), reset: e.cache.reset(now), window: got.window}}
}

// keepLocked keeps a grant whose permits become available later as a ticket, and reports whether it is one.
func (e *Limiter) keepLocked(c *call, permits int, got result) bool {
	if got.wait == 0 {
		return false
	}
	one := ticket{permits, later(c.at, got.wait), c.reply.now + got.wait, c.sent, got}
	if e.closed || c.limits != e.limits { // there was an Apply since the call was sent
		e.giveTicketLocked(one)
		return true
	}
	out := e.cache.tickets.out
	i := len(out)
	for i > 0 && out[i-1].at.After(one.at) {
		i--
	}
	e.cache.tickets.out = slices.Insert(out, i, one)
	return true
}

// giveTicketLocked returns a ticket.
func (e *Limiter) giveTicketLocked(one ticket) {
	o := giveOp(int64(one.permits), one.result.stamp)
	if e.kind == kindBucket {
		o.args[0] = int64(codeCancel)
		o.args = append(o.args, one.due)
	}
	e.cache.tickets.back = append(e.cache.tickets.back, &o)
}

// balanceLocked returns the tickets for which no waiter is left, the latest first, and has the store asked for those that are missing.
func (e *Limiter) balanceLocked() {
	t := &e.cache.tickets
	have, want := t.permits(), e.queue.Queued()
	if have == 0 && (want == 0 || !e.promisedLocked()) {
		t.gap = false
		return
	}
	for have > want && len(t.out) > 0 {
		last := t.out[len(t.out)-1]
		if (t.gap || last.permits != have-want) && !t.uniform() { // those behind the one that is gone may be served sooner
			e.renewLocked()
			break
		}
		if last.permits > have-want {
			break
		}
		have -= last.permits
		t.out = t.out[:len(t.out)-1]
		e.giveTicketLocked(last)
	}
	t.gap = false
	now := time.Now()
	if have < want && e.promisedLocked() && !now.Before(t.stalled) && e.client.calling == 0 && e.client.breaker.retryTime(now).IsZero() {
		e.asks = true
	}
}

// renewLocked returns all tickets, and has the store asked for new ones, because permits may become available at other times
// than they say.
func (e *Limiter) renewLocked() {
	e.redeemLocked()
	t := &e.cache.tickets
	for _, one := range t.out {
		e.giveTicketLocked(one)
	}
	t.out, t.stalled, t.renewed = nil, time.Time{}, time.Now()
	e.asks = !e.queue.Empty()
}

// moveUpLocked renews the tickets, at most once a second, if a reply says that there may be earlier ones.
func (e *Limiter) moveUpLocked(got result) {
	t := &e.cache.tickets
	if got.moved && len(t.out) > 1 && time.Since(t.renewed) >= askEvery {
		e.renewLocked()
	}
}

// redeemLocked gives the permits of the tickets that are due to the waiters. What the one that is next does not want goes back.
func (e *Limiter) redeemLocked() {
	t := &e.cache.tickets
	for len(t.out) > 0 {
		due, now := t.out[0], time.Now()
		if now.Before(due.at) {
			return
		}
		t.out = slices.Delete(t.out, 0, 1)
		f := &e.cache.forecast
		if e.kind == kindBucket && f.known {
			f.own.serve(f.limits, due.due-f.at, int64(due.permits))
		}
		got := due.result
		got.left, got.reset = e.cache.available(now), e.cache.reset(now)
		e.offerLocked(given{permits: due.permits, result: got})
	}
}

// missesLocked reports whether a waiter has no ticket.
func (e *Limiter) missesLocked() bool { return e.missesPermitsLocked() || e.queue.ZeroWaits() }

// missesPermitsLocked is missesLocked of a waiter that wants permits.
func (e *Limiter) missesPermitsLocked() bool {
	return !e.promisedLocked() || e.cache.tickets.permits() < e.queue.Queued()
}
