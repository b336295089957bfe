package limitertest_test

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
)

// ledger is the reference for what can be settled: a third-party limiter that keeps
// one number, the permits that are out, and does plain arithmetic on it. More may be out
// than the limit; that is a debt. Its queue serves the oldest first. Its faults break rules.
type ledger struct {
	base       time.Time
	grain      time.Duration // of its clock; 0: it is exact
	queueLimit int
	back       comesBack
	faults     ledgerFaults

	mu     sync.Mutex
	limit  int
	out    int       // at least 0
	next   time.Time // when permits come back, while out > 0
	resets int
	stats  core.Statistics
	queue  []*applicant
	timer  *time.Timer // of the next permits, while a request waits
	closed bool
}

// comesBack is how permits come back: one every period; all of them every period, on a
// grid; and with no period, by a release.
type comesBack struct {
	period time.Duration
	all    bool
}

type ledgerFaults struct {
	givesNothing    bool // a settlement for less gives nothing back
	givesLate       bool // a settlement for less counts the whole lease, whenever it comes
	wakesNoWaiter   bool // a settlement for less wakes no waiter
	takesNothing    bool // a settlement for more takes nothing
	forgivesDebt    bool // a settlement for more takes what is there and no more
	waitsForMore    bool // a settlement for more waits for what comes next
	overflows       bool // sums wrap around
	servesInDebt    bool // what comes back serves a waiter, whatever is owed
	concealsDebt    bool // RetryAfter does not count the debt
	counts          bool // a settlement counts as a grant
	endsWithClose   bool // after Close nothing is settled
	updatePaysDebt  bool // an Update forgets a debt
	resetKeepsDebt  bool // a Reset fills up an empty limiter, and leaves a debt
	resetWakesNone  bool // a Reset wakes no waiter
	resetForgetsAll bool // a Reset clears the counts
	resetKeepsOld   bool // after a Reset old leases still return permits

	greedy       bool // whoever fits is served, wherever it stands
	probesFirst  bool // zero-permit requests are served before the queue
	keepsRoom    bool // a canceled waiter stays in the queue's count
	forgets      bool // a canceled waiter lets no waiter pass
	keepsPermits bool // a canceled waiter is served all the same
	losesGrants  bool // a waiter that was served when canceled gives nothing back
}

// grant is what a ledger knows of a lease.
type grant struct {
	of     *ledger
	at     time.Time
	resets int // there had been
}

// holding is the grant of a lease that holds its permits until it is released.
type holding struct{ *grant }

func (g holding) Release(permits int) {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.of.addLocked(-permits)
	g.of.serveLocked()
}

// applicant waits for permits.
type applicant struct {
	permits int
	decided chan struct{}
	lease   core.Lease
}

func newLedger(back comesBack, queueLimit int, faults ledgerFaults) *ledger {
	l := &ledger{base: time.Now(), limit: limit, queueLimit: queueLimit, back: back, faults: faults}
	l.next = l.base.Add(back.period)
	return l
}

// newSemaphore returns a ledger of permits that come back by a release, with no more methods than a limiter needs,
// and its statistics.
func newSemaphore(queueLimit int, faults ledgerFaults) core.Limiter {
	l := newLedger(byRelease, queueLimit, faults)
	return struct {
		core.Limiter
		core.Reporter
		io.Closer
	}{l, l, l}
}

// newQuota returns a ledger of a window, without a queue and with no more methods than a limiter needs.
func newQuota(period, grain time.Duration) core.Limiter {
	l := newLedger(comesBack{period: period, all: true}, 0, ledgerFaults{})
	l.grain = grain
	return struct{ core.Limiter }{l}
}

// now reads the clock, with its grain.
func (l *ledger) now() time.Time {
	since := time.Since(l.base)
	if l.grain > 0 {
		since = since.Truncate(l.grain)
	}
	return l.base.Add(since)
}

// advanceLocked returns the permits that are due.
func (l *ledger) advanceLocked() {
	for l.back.period > 0 && (l.out > 0 || l.back.all) && !l.now().Before(l.next) {
		l.out--
		if l.back.all {
			l.out = 0
		}
		l.next = l.next.Add(l.back.period)
	}
}

// addLocked changes the number of permits that are out.
func (l *ledger) addLocked(n int) {
	if l.out == 0 && !l.back.all {
		l.next = l.now().Add(l.back.period)
	}
	if n > math.MaxInt-l.out && !l.faults.overflows {
		n = math.MaxInt - l.out
	}
	if l.out += n; !l.faults.overflows {
		l.out = max(l.out, 0)
	}
}

func (l *ledger) availableLocked() int { return max(l.limit-l.out, 0) }

// retryAfterLocked returns when a request for n could be served, ahead permits before it.
func (l *ledger) retryAfterLocked(n, ahead int) time.Duration {
	wait := l.next.Sub(l.now())
	if l.back.all {
		return wait
	}
	out := l.out
	if l.faults.concealsDebt {
		out = min(out, l.limit)
	}
	short := max(n, 1) + ahead - (l.limit - out)
	if short-1 > int((math.MaxInt64-wait)/l.back.period) {
		return math.MaxInt64
	}
	return wait + time.Duration(short-1)*l.back.period
}

func (l *ledger) Available() int { return l.Statistics().Available }

func (l *ledger) Statistics() core.Statistics {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advanceLocked()
	st := l.stats
	st.Limit, st.Available = l.limit, l.availableLocked()
	return st
}

// decideLocked returns the lease of a request that need not wait.
func (l *ledger) decideLocked(n int) (core.Lease, bool) {
	l.advanceLocked()
	switch {
	case n < 0:
		return core.Fail(core.ErrNegativePermits), true
	case l.closed:
		return core.Fail(core.ErrClosed), true
	case n > l.limit:
		return core.Fail(core.ErrPermitsExceedLimit), true
	case max(n, 1) > l.availableLocked(), n > 0 && l.stats.Queued > 0:
		return core.Lease{}, false
	}
	l.stats.Granted++
	return l.grantLocked(n), true
}

// grantLocked grants, and leaves the count to the caller, because a waiter that has gone does not count.
func (l *ledger) grantLocked(n int) core.Lease {
	l.addLocked(n)
	g := &grant{of: l, at: l.now(), resets: l.resets}
	if l.back.period == 0 {
		return core.GrantFrom(holding{g}, n)
	}
	return core.GrantFrom(g, n)
}

// rejectLocked returns a rejection, with a time if time helps.
func (l *ledger) rejectLocked(n, ahead int) core.Lease {
	l.stats.Rejected++
	if l.back.period == 0 {
		return core.Reject()
	}
	return core.Reject(core.RetryAfter.With(l.retryAfterLocked(n, ahead)))
}

func (l *ledger) TryAcquire(n int) core.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease, decided := l.decideLocked(n)
	if !decided {
		ahead := l.stats.Queued
		if n == 0 {
			ahead = 0
		}
		return l.rejectLocked(n, ahead)
	}
	return lease
}

func (l *ledger) Acquire(ctx context.Context, n int) (core.Lease, error) {
	if err := ctx.Err(); err != nil && n >= 0 {
		return core.Fail(err), err
	}
	l.mu.Lock()
	lease, decided := l.decideLocked(n)
	if !decided && n > l.queueLimit-l.stats.Queued {
		lease, decided = l.rejectLocked(n, l.stats.Queued), true
	}
	if decided {
		l.mu.Unlock()
		return lease, lease.Err()
	}
	a := &applicant{permits: n, decided: make(chan struct{})}
	l.queue = append(l.queue, a)
	l.stats.Queued += n
	l.serveLocked()
	l.mu.Unlock()
	select {
	case <-a.decided:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return l.withdraw(ctx, a)
	}
	if a.lease.Acquired() {
		l.mu.Lock()
		l.stats.Granted++
		l.mu.Unlock()
	}
	return a.lease, a.lease.Err()
}

func (l *ledger) withdraw(ctx context.Context, a *applicant) (core.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, a); i >= 0 {
		if l.faults.keepsPermits {
			return core.Fail(ctx.Err()), ctx.Err()
		}
		l.queue = slices.Delete(l.queue, i, i+1)
		if !l.faults.keepsRoom {
			l.stats.Queued -= a.permits
		}
		if !l.faults.forgets {
			l.serveLocked()
		}
		return core.Fail(ctx.Err()), ctx.Err()
	}
	if a.lease.Acquired() && !l.faults.losesGrants {
		l.addLocked(-a.permits)
		l.serveLocked()
	}
	return core.Fail(ctx.Err()), ctx.Err()
}

// serveLocked grants to the oldest as long as they fit, and sees to it that it is called
// when more comes back.
func (l *ledger) serveLocked() {
	l.advanceLocked()
	serve := func(probes bool) {
		blocked := false
		l.queue = slices.DeleteFunc(l.queue, func(a *applicant) bool {
			if (a.permits == 0) != probes || blocked {
				return false
			}
			if max(a.permits, 1) > l.availableLocked() {
				blocked = !l.faults.greedy
				return false
			}
			a.lease = l.grantLocked(a.permits)
			l.stats.Queued -= a.permits
			close(a.decided)
			return true
		})
	}
	if l.faults.probesFirst {
		serve(true)
	}
	serve(false)
	serve(true)
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.back.period > 0 && len(l.queue) > 0 {
		l.timer = time.AfterFunc(l.next.Sub(l.now()), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.serveLocked()
		})
	}
}

func (g *grant) Settle(had, now int) int {
	l := g.of
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advanceLocked()
	if l.closed && l.faults.endsWithClose {
		return had
	}
	switch by := now - had; {
	case by > 0:
		l.takeLocked(by)
	case l.faults.givesNothing:
	default:
		l.giveBackLocked(-by, g)
	}
	if l.faults.counts {
		l.stats.Granted++
	}
	return now
}

// takeLocked takes permits, whether they are there or not.
func (l *ledger) takeLocked(n int) {
	if l.faults.waitsForMore {
		l.mu.Unlock()
		time.Sleep(l.back.period)
		l.mu.Lock()
	}
	if l.faults.takesNothing {
		return
	}
	if l.faults.forgivesDebt {
		n = min(n, l.availableLocked())
	}
	l.addLocked(n)
}

// giveBackLocked returns the part of a grant that is certain: all of it at the instant of the
// grant, or in its window; later nothing.
func (l *ledger) giveBackLocked(n int, g *grant) {
	sameWindow := l.back.all && !g.at.Before(l.next.Add(-l.back.period))
	certain := l.back.period == 0 || g.resets == l.resets && (sameWindow || g.at.Equal(l.now()))
	if !certain && !l.faults.givesLate {
		return
	}
	l.addLocked(-n)
	if l.faults.servesInDebt {
		defer func(out int) { l.out = out }(l.out)
		l.out = min(l.out, max(l.limit-n, 0))
	}
	if !l.faults.wakesNoWaiter {
		l.serveLocked()
	}
}

func (l *ledger) update(limit int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return core.ErrClosed
	case limit < 1:
		return errors.New("a limit is at least 1")
	}
	l.advanceLocked()
	if l.faults.updatePaysDebt {
		l.out = min(l.out, l.limit)
	}
	if !l.back.all && l.back.period > 0 { // a bucket keeps the tokens it has
		l.addLocked(limit - l.limit)
	}
	l.limit = limit
	l.queue = slices.DeleteFunc(l.queue, func(a *applicant) bool {
		if a.permits <= limit {
			return false
		}
		a.lease = core.Fail(core.ErrPermitsExceedLimit)
		l.stats.Queued -= a.permits
		close(a.decided)
		return true
	})
	l.serveLocked()
	return nil
}

func (l *ledger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.faults.resetKeepsOld {
		l.resets++
	}
	l.out = max(l.out-l.limit, 0)
	if !l.faults.resetKeepsDebt {
		l.out = 0
	}
	if l.faults.resetForgetsAll {
		l.stats.Granted, l.stats.Rejected = 0, 0
	}
	if !l.faults.resetWakesNone {
		l.serveLocked()
	}
}

func (l *ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, a := range l.queue {
		a.lease = core.Fail(core.ErrClosed)
		close(a.decided)
	}
	l.queue, l.stats.Queued = nil, 0
	if l.timer != nil {
		l.timer.Stop()
	}
	return nil
}

// rateLedger is a ledger whose permits come back with time.
type rateLedger struct{ *ledger }

func (l rateLedger) Reset() { l.reset() }
