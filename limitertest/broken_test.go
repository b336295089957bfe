package limitertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/limitertest"
)

// broken is a limiter that breaks a rule, and what it claims to be.
type broken struct {
	rule   string
	fault  string // how it breaks the rule
	config limitertest.Config
	make   func() core.Limiter
}

const queue = 2*limit + 1

// The claims that broken limiters make.
var (
	slots       = limitertest.Config{Limit: limit, QueueLimit: queue}
	newestSlots = limitertest.Config{Limit: limit, QueueLimit: queue, QueueOrder: core.NewestFirst}
	noQueue     = limitertest.Config{Limit: limit, QueueLimit: limitertest.NoQueue}
	shortQueue  = limitertest.Config{Limit: limit, QueueLimit: 3, QueueOrder: core.NewestFirst}
	tokens      = limitertest.Config{Limit: limit, QueueLimit: queue, Refill: 30 * time.Second}
	newestTok   = limitertest.Config{Limit: limit, QueueLimit: queue, QueueOrder: core.NewestFirst, Refill: 30 * time.Second}
	fairSlots   = limitertest.Config{Limit: limit, QueueLimit: 6 * limit, QueueOrder: core.FairShare}
	fairTokens  = limitertest.Config{Limit: limit, QueueLimit: 6 * limit, QueueOrder: core.FairShare, Refill: 30 * time.Second}
	byHand      = limitertest.Config{Limit: limit, QueueLimit: queue, Refill: 30 * time.Second, Manual: true}
)

// mutated returns a maker of mutants of what the config claims.
func mutated(c limitertest.Config, mutate func(m *mutant)) func() core.Limiter {
	return func() core.Limiter {
		room := max(c.QueueLimit, 0)
		if c.Refill == 0 {
			m := &mutant{Limiter: concurrency(room, c.QueueOrder)}
			mutate(m)
			return m
		}
		m := &mutantRate{mutant{Limiter: bucket(room, c.QueueOrder, c.Manual)}}
		mutate(&m.mutant)
		return m
	}
}

// viewed is a mutant that reports what it is a view of.
type viewed struct{ mutant }

func (v *viewed) Unwrap() core.Limiter { return v.Limiter }

// viewOf is mutated for views.
func viewOf(c limitertest.Config, mutate func(m *mutant)) func() core.Limiter {
	return func() core.Limiter {
		v := &viewed{mutant{Limiter: concurrency(c.QueueLimit, c.QueueOrder)}}
		mutate(&v.mutant)
		return v
	}
}

// faulty returns a maker of semaphores with a fault.
func faulty(faults ledgerFaults) func() core.Limiter {
	return func() core.Limiter { return newSemaphore(queue, faults) }
}

// tries is mutated with another TryAcquire.
func tries(c limitertest.Config, try func(m *mutant, n int) core.Lease) func() core.Limiter {
	return mutated(c, func(m *mutant) { m.try = func(n int) core.Lease { return try(m, n) } })
}

// asks is mutated with another Acquire.
func asks(c limitertest.Config, acquire func(ctx context.Context, m *mutant, n int) (core.Lease, error)) func() core.Limiter {
	return mutated(c, func(m *mutant) {
		m.acquire = func(ctx context.Context, n int) (core.Lease, error) { return acquire(ctx, m, n) }
	})
}

// plain returns a maker of good limiters, that are not what the config claims.
func plain(room int, order core.QueueOrder) func() core.Limiter {
	return func() core.Limiter { return concurrency(room, order) }
}

var brokenLimiters = []broken{
	{"requests", "grants though the context is done", slots, asks(slots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		if l := m.TryAcquire(n); l.Acquired() {
			return l, nil
		}
		return m.Limiter.Acquire(ctx, n)
	})},
	{"requests", "looks at the limit before the context", slots, asks(slots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		if n > limit {
			return core.Fail(core.ErrPermitsExceedLimit), core.ErrPermitsExceedLimit
		}
		return m.Limiter.Acquire(ctx, n)
	})},
	{"requests", "mints permits from negative counts", slots, tries(slots, func(m *mutant, n int) core.Lease { return m.Limiter.TryAcquire(max(n, 0)) })},
	{"requests", "returns the context's cause", slots, asks(slots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		if err := context.Cause(ctx); err != nil && n >= 0 {
			return core.Fail(err), err
		}
		return m.Limiter.Acquire(ctx, n)
	})},
	{"requests", "takes it for a rejection", slots, tries(slots, func(m *mutant, n int) core.Lease {
		if n > limit {
			return core.Reject()
		}
		return m.Limiter.TryAcquire(n)
	})},
	{"requests", "has its numbers wrong", slots, tries(slots, func(m *mutant, n int) core.Lease {
		if n > limit {
			return core.Fail(&core.ExceedsLimitError{Permits: n - 1, Limit: limit})
		}
		return m.Limiter.TryAcquire(n)
	})},
	{"requests", "waits for it", slots, asks(slots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		if n > limit {
			<-ctx.Done()
			return core.Fail(ctx.Err()), ctx.Err()
		}
		return m.Limiter.Acquire(ctx, n)
	})},
	{"requests", "always grants it", slots, tries(slots, func(m *mutant, n int) core.Lease {
		if n == 0 {
			return core.Grant(0, nil)
		}
		return m.Limiter.TryAcquire(n)
	})},
	{"requests", "takes one for it", slots, tries(slots, func(m *mutant, n int) core.Lease {
		if n == 0 {
			m.Limiter.TryAcquire(1)
		}
		return m.Limiter.TryAcquire(n)
	})},
	{"queue", "refuses probes while a request waits", slots, tries(slots, func(m *mutant, n int) core.Lease {
		if n == 0 && m.Statistics().Queued > 0 {
			return core.Reject()
		}
		return m.Limiter.TryAcquire(n)
	})},
	{"queue", "rejects probes that would wait", slots, asks(slots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		if n == 0 && m.Available() == 0 {
			l := m.TryAcquire(0)
			return l, l.Err()
		}
		return m.Limiter.Acquire(ctx, n)
	})},
	{"queue", "serves them before", slots, faulty(ledgerFaults{probesFirst: true})},

	{"queue", "waits", noQueue, plain(1, core.OldestFirst)},
	{"queue", "has room for one more", slots, plain(queue+1, core.OldestFirst)},
	{"queue", "has room for one less", slots, plain(queue-1, core.OldestFirst)},
	{"queue", "evicts for one more than it has", newestSlots, plain(queue+1, core.NewestFirst)},
	{"queue", "evicts the oldest", slots, plain(queue, core.NewestFirst)},
	{"queue", "rejects the newcomer", newestSlots, plain(queue, core.OldestFirst)},
	{"queue", "has a queue that it would fit into", shortQueue, plain(4, core.NewestFirst)},
	{"queue", "serves a newcomer that fits", slots, plain(queue, core.NewestFirst)},
	{"queue", "makes it wait", newestSlots, plain(queue, core.OldestFirst)},
	{"queue", "serves the newest first", slots, plain(queue, core.NewestFirst)},
	{"queue", "serves the oldest first", newestSlots, plain(queue, core.OldestFirst)},
	{"queue", "serves the newest first", tokens, func() core.Limiter { return bucket(queue, core.NewestFirst, false) }},
	{"flows", "reports fair shares, and serves the oldest first", limitertest.Config{Limit: limit, QueueLimit: 6 * limit, QueueOrder: core.FairShare}, claiming(core.FairShare, 6*limit)},
	{"queue", "reports another order", slots, claiming(core.NewestFirst, queue)},
	{"flows", "serves the oldest first", fairSlots, plain(6*limit, core.OldestFirst)},
	{"flows", "serves the newest first", fairSlots, plain(6*limit, core.NewestFirst)},
	{"flows", "serves the oldest first", fairTokens, func() core.Limiter { return bucket(6*limit, core.OldestFirst, false) }},
	{"flows", "ignores the weight", fairSlots, asks(fairSlots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		f, _ := core.FlowFromContext(ctx)
		f.Weight = 0
		return m.Limiter.Acquire(core.WithFlow(ctx, f), n)
	})},
	{"flows", "ignores it", fairSlots, asks(fairSlots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		f, _ := core.FlowFromContext(ctx)
		f.Priority = 0
		return m.Limiter.Acquire(core.WithFlow(ctx, f), n)
	})},
	{"flows", "lets a newcomer catch up with what others got", fairSlots, mutated(fairSlots, func(m *mutant) {
		var mu sync.Mutex
		granted, ahead := map[string]int{}, map[string]int{}
		m.acquire = func(ctx context.Context, n int) (core.Lease, error) {
			f, ok := core.FlowFromContext(ctx)
			if !ok {
				return m.Limiter.Acquire(ctx, n)
			}
			key := f.Key
			mu.Lock()
			if _, known := ahead[key]; !known {
				ahead[key] = granted["a"]
			}
			if ahead[key] > 0 {
				ahead[key]--
				f.Priority = 100
			}
			mu.Unlock()
			l, err := m.Limiter.Acquire(core.WithFlow(ctx, f), n)
			mu.Lock()
			granted[key]++
			mu.Unlock()
			return l, err
		}
	})},
	{"queue", "serves whoever fits", slots, faulty(ledgerFaults{greedy: true})},

	{"queue", "wraps its error", slots, asks(slots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		l, err := m.Limiter.Acquire(ctx, n)
		if ctx.Err() != nil {
			err = fmt.Errorf("waiting: %w", err)
			return core.Fail(err), err
		}
		return l, err
	})},
	{"queue", "continues to wait", slots, asks(slots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		if ctx.Err() != nil {
			return m.Limiter.Acquire(ctx, n)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
		defer cancel()
		return m.Limiter.Acquire(ctx, n)
	})},
	{"queue", "counts a caller that is gone", slots, faulty(ledgerFaults{keepsRoom: true})},
	{"queue", "serves at the next release", slots, faulty(ledgerFaults{forgets: true})},
	{"queue", "grants to a caller that is gone", slots, faulty(ledgerFaults{keepsPermits: true})},
	{"concurrent callers", "loses the permits", slots, faulty(ledgerFaults{losesGrants: true})},

	{"retry after", "is a nanosecond late", tokens, retryAfterOff(tokens, 1)},
	{"retry after", "is a nanosecond early", tokens, retryAfterOff(tokens, -1)},
	{"retry after", "is silent", tokens, tries(tokens, func(m *mutant, n int) core.Lease {
		if l := m.Limiter.TryAcquire(n); l.Acquired() || n < 0 || n > limit {
			return l
		}
		return core.Reject()
	})},
	{"retry after in a queue", "ignores the queue", tokens, mutated(tokens, func(m *mutant) {
		m.try = func(n int) core.Lease {
			l := m.Limiter.TryAcquire(n)
			if d, ok := core.RetryAfter.From(l); ok && m.Statistics().Queued > limit {
				return l.With(core.RetryAfter.With(min(d, 10*time.Second)))
			}
			return l
		}
		m.acquire = func(ctx context.Context, n int) (core.Lease, error) {
			l, err := m.Limiter.Acquire(ctx, n)
			if d, ok := core.RetryAfter.From(l); ok {
				l = core.Reject(core.RetryAfter.With(min(d, 10*time.Second)))
				err = l.Err()
			}
			return l, err
		}
	})},
	{"retry after in a queue", "counts it, newest first", newestTok, tries(newestTok, func(m *mutant, n int) core.Lease {
		l := m.Limiter.TryAcquire(n)
		if d, ok := core.RetryAfter.From(l); ok {
			return l.With(core.RetryAfter.With(d + time.Duration(m.Statistics().Queued)))
		}
		return l
	})},
	{"requests", "guesses", slots, tries(slots, func(m *mutant, n int) core.Lease {
		l := m.Limiter.TryAcquire(n)
		if !l.Acquired() {
			return l.With(core.RetryAfter.With(time.Second))
		}
		return l
	})},
	{"deadlines", "sleeps for nothing", tokens, asks(tokens, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		if ctx.Err() != nil {
			return m.Limiter.Acquire(ctx, n)
		}
		blind, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		l, err := m.Limiter.Acquire(blind, n)
		if ctx.Err() != nil {
			return core.Fail(ctx.Err()), ctx.Err()
		}
		return l, err
	})},
	{"deadlines", "does not say that the deadline is the reason", tokens, asks(tokens, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		l, err := m.Limiter.Acquire(ctx, n)
		if d, ok := core.RetryAfter.From(l); ok {
			l = core.Reject(core.RetryAfter.With(d))
			err = l.Err()
		}
		return l, err
	})},
	{"retry after", "wakes it late", tokens, asks(tokens, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		l, err := m.Limiter.Acquire(ctx, n)
		if n > 0 && err == nil {
			time.Sleep(1 * time.Nanosecond)
		}
		return l, err
	})},
	{"replenishment", "needs TryReplenish", tokens, func() core.Limiter { return bucket(queue, core.OldestFirst, true) }},
	{"replenishment", "is too slow", tokens, func() core.Limiter { return fixed(queue, core.OldestFirst, false) }},
	{"replenishment", "is too fast", tokens, func() core.Limiter { return sliding(queue, core.OldestFirst, false) }},
	{"replenishment", "boasts", tokens, mutated(tokens, func(m *mutant) { m.replenish = func() bool { return true } })},
	{"replenishment", "does not need it", byHand, func() core.Limiter { return bucket(queue, core.OldestFirst, false) }},
	{"replenishment", "denies it", byHand, mutated(byHand, func(m *mutant) { m.auto = func() bool { return true } })},
	{"replenishment", "saves up", tokens, func() core.Limiter {
		l := must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 2 * limit, TokensPerPeriod: limit, ReplenishmentPeriod: 30 * time.Second}))
		l.TryAcquire(limit)
		return l
	}},
	{"idle", "is always idle", slots, mutated(slots, func(m *mutant) {
		m.idle = func() (time.Duration, bool) { return 0, true }
	})},
	{"idle", "is slow to count", slots, func() core.Limiter {
		m, created := &mutant{Limiter: concurrency(queue, core.OldestFirst)}, time.Now()
		m.idle = func() (time.Duration, bool) {
			if _, idle := m.Limiter.(core.Idler).IdleFor(); !idle {
				return 0, false
			}
			return time.Since(created) / 2, true
		}
		return m
	}},

	{"idle", "forgets when it was in use", slots, func() core.Limiter {
		m, created := &mutant{Limiter: concurrency(queue, core.OldestFirst)}, time.Now()
		m.idle = func() (time.Duration, bool) {
			if _, idle := m.Limiter.(core.Idler).IdleFor(); !idle {
				return 0, false
			}
			return time.Since(created), true
		}
		return m
	}},

	{"requests", "never", slots, tries(slots, func(m *mutant, n int) core.Lease {
		l := m.Limiter.TryAcquire(n)
		if !l.Acquired() {
			return l
		}
		return core.Grant(n, nil)
	})},
	{"requests", "returns one more", slots, mutated(slots, func(m *mutant) {
		var held []core.Lease
		m.try = func(n int) core.Lease {
			if n < 2 || n > limit {
				return m.Limiter.TryAcquire(n)
			}
			for range n {
				held = append(held, m.Limiter.TryAcquire(1))
			}
			return core.Grant(n, func() {
				for range min(n+1, len(held)) {
					held[0].Release()
					held = held[1:]
				}
			})
		}
	})},
	{"requests", "hands one lease out again", slots, mutated(slots, func(m *mutant) {
		var old core.Lease
		m.try = func(n int) core.Lease {
			l := m.Limiter.TryAcquire(n)
			switch {
			case n == 1 && l.Acquired() && !old.Acquired():
				old = l
			case n == limit && l.Acquired():
				l.Release()
				again := m.Limiter.TryAcquire(n)
				stale := core.Grant(0, again.Release)
				old, l = stale, again
			}
			if n == 1 && l.Acquired() {
				return core.Grant(1, func() { l.Release() })
			}
			if n == limit && l.Acquired() {
				return core.Grant(n, nil)
			}
			return l
		}
	})},
	{"requests", "does", tokens, tries(tokens, func(m *mutant, n int) core.Lease {
		l := m.Limiter.TryAcquire(n)
		if !l.Acquired() {
			return l
		}
		return core.Grant(n, l.Refund)
	})},
	{"requests", "has a Refund that is never called", slots, func() core.Limiter { return oldRefund{concurrency(queue, core.OldestFirst)} }},
	{"requests", "has a Settle that is never called", slots, func() core.Limiter { return oldSettle{concurrency(queue, core.OldestFirst)} }},
	{"refunds", "does not", tokens, mutated(tokens, refundsBy(func(core.Lease) {}))},
	{"refunds", "takes any refund for that of the latest lease", tokens, mutated(tokens, func(m *mutant) {
		var latest core.Lease
		refundsBy(func(core.Lease) { latest.Refund() })(m)
		m.try = func(n int) core.Lease {
			l := m.Limiter.TryAcquire(n)
			if l.Acquired() {
				latest = l
			}
			return m.own(l)
		}
	})},
	{"refunds", "at the next opportunity", slots, mutated(slots, refundsBy(func(l core.Lease) { time.AfterFunc(1, l.Release) }))},
	{"replenishment", "has no rate", rateless, newRateless},
	{"reservations", "takes nothing", tokens, mutated(tokens, func(m *mutant) {
		m.reserve = func(n int) core.Lease { return core.Grant(n, nil, core.Delay.With(0)) }
	})},
	{"reservations", "is a nanosecond late", tokens, mutated(tokens, func(m *mutant) {
		m.reserve = func(n int) core.Lease {
			l := m.Limiter.(core.Reserver).Reserve(n)
			if d, _ := core.Delay.From(l); d > 0 {
				return l.With(core.Delay.With(d + 1))
			}
			return l
		}
	})},
	{"reservations", "keeps no place", tokens, noPlace(tokens)},
	{"reservations", "overtakes those who wait", tokens, mutated(tokens, func(m *mutant) {
		m.reserve = func(n int) core.Lease {
			if m.Statistics().Queued > 0 {
				return core.Grant(n, nil, core.Delay.With(time.Second))
			}
			return m.Limiter.(core.Reserver).Reserve(n)
		}
	})},
	{"reservations", "has room for all", tokens, noPlace(tokens)},
	{"reservations", "keeps its place", tokens, mutated(tokens, refundsBy(func(core.Lease) {}))},
	{"switch", "ignores the end of a context", slots, asks(slots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return m.Limiter.Acquire(ctx, n)
	})},
	{"switch", "grants to a caller that is gone", slots, faulty(ledgerFaults{keepsPermits: true})},
	{"switch", "looks for the end of a context once a second", slots, viewOf(slots, func(m *mutant) {
		m.acquire = func(ctx context.Context, n int) (core.Lease, error) {
			for range 30 {
				if err := ctx.Err(); err != nil {
					return core.Fail(err), err
				}
				if l := m.Limiter.TryAcquire(n); l.Acquired() {
					return l, nil
				}
				time.Sleep(time.Second)
			}
			l := m.Limiter.TryAcquire(n)
			return l, l.Err()
		}
	})},

	{"requests", "has a number where a time belongs", slots, tries(slots, func(m *mutant, n int) core.Lease {
		return m.Limiter.TryAcquire(n).With(core.NewMetadataKey[int]("RESET_AFTER").With(7))
	})},
	{"requests", "has a limit that is none", slots, tries(slots, func(m *mutant, n int) core.Lease { return m.Limiter.TryAcquire(n).With(core.PermitLimit.With(0)) })},
	{"requests", "has a window of no length", tokens, tries(tokens, func(m *mutant, n int) core.Lease { return m.Limiter.TryAcquire(n).With(core.Window.With(0)) })},
	{"requests", "is not", tokens, tries(tokens, func(m *mutant, n int) core.Lease {
		return m.Limiter.TryAcquire(n).With(core.Window.With(time.Minute + time.Duration(max(n, 0))))
	})},
	{"requests", "has one where time does not help", slots, tries(slots, func(m *mutant, n int) core.Lease { return m.Limiter.TryAcquire(n).With(core.Window.With(time.Minute)) })},
	{"queue", "has one word for all", slots, asks(slots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		l, err := m.Limiter.Acquire(ctx, n)
		if errors.Is(err, core.ErrRejected) {
			l = core.Reject(core.ReasonPhrase.With("permits exhausted"))
			err = l.Err()
		}
		return l, err
	})},
	{"queue", "takes an eviction for a full queue", newestSlots, asks(newestSlots, func(ctx context.Context, m *mutant, n int) (core.Lease, error) {
		l, err := m.Limiter.Acquire(ctx, n)
		if errors.Is(err, core.ErrRejected) {
			l = core.Reject(core.ReasonPhrase.With("queue limit reached"))
			err = l.Err()
		}
		return l, err
	})},
	{"requests", "has one of its own", slots, tries(slots, func(m *mutant, n int) core.Lease {
		l := m.Limiter.TryAcquire(n)
		if !l.Acquired() {
			return core.Fail(errors.New("no"))
		}
		return l
	})},
	{"requests", "says another reason", slots, tries(slots, func(m *mutant, n int) core.Lease {
		l := m.Limiter.TryAcquire(n)
		if !errors.Is(l.Err(), core.ErrRejected) {
			return l
		}
		return core.Fail(l.Err()).With(core.ReasonPhrase.With("because"))
	})},
	{"statistics", "counts no probes", slots, mutated(slots, func(m *mutant) {
		probes := uint64(0)
		m.try = func(n int) core.Lease {
			l := m.Limiter.TryAcquire(n)
			if n == 0 && l.Acquired() {
				probes++
			}
			return l
		}
		m.counts = func() core.Statistics {
			st := m.Limiter.(core.Reporter).Statistics()
			st.Granted -= probes
			return st
		}
	})},
	{"statistics", "reports one more available", slots, mutated(slots, func(m *mutant) {
		m.counts = func() core.Statistics {
			st := m.Limiter.(core.Reporter).Statistics()
			st.Available++
			return st
		}
	})},
	{"statistics", "reports twice as many as queued", slots, mutated(slots, func(m *mutant) {
		m.counts = func() core.Statistics {
			st := m.Limiter.(core.Reporter).Statistics()
			st.Queued *= 2
			return st
		}
	})},
	{"concurrent callers", "forgets", slots, mutated(slots, func(m *mutant) {
		looks := atomic.Int64{}
		m.counts = func() core.Statistics {
			st := m.Limiter.(core.Reporter).Statistics()
			if looks.Add(1)%7 == 0 {
				st.Granted /= 2
			}
			return st
		}
	})},
	{"requests", "is always all", slots, mutated(slots, func(m *mutant) { m.available = func() int { return limit } })},
	{"requests", "is off by one", slots, mutated(slots, func(m *mutant) {
		m.available = func() int { return m.Limiter.Available() + 1 }
	})},
	{"concurrent callers", "looks before it leaps", slots, func() core.Limiter { return &racy{free: free(limit)} }},
	{"concurrent callers", "looks before it leaps", slots, func() core.Limiter { return &racy{free: free(limit)} }},
	{"concurrent callers", "looks before it leaps", slots, func() core.Limiter { return &racy{free: free(limit)} }},

	{"updates", "takes the number for that of what is free", updated(slots, func(m *mutant, n int) error {
		return update(m.Limiter, n+limit-m.Available())
	}), plainMutant},
	{"updates", "does nothing", updated(slots, func(*mutant, int) error { return nil }), plainMutant},
	{"updates", "takes it for the least", updated(slots, func(m *mutant, n int) error {
		return update(m.Limiter, max(n, 1))
	}), plainMutant},
	{"updates", "continues after Close", updated(slots, func(m *mutant, n int) error {
		_ = update(m.Limiter, n)
		if n < 1 {
			return errors.New("no")
		}
		return nil
	}), plainMutant},
	{"close", "does nothing", slots, mutated(slots, func(m *mutant) { m.close = func() error { return nil } })},
	{"close", "is angry the second time", slots, mutated(slots, func(m *mutant) {
		closed := false
		m.close = func() error {
			if closed {
				return core.ErrClosed
			}
			closed = true
			return m.Limiter.(*core.ConcurrencyLimiter).Close()
		}
	})},
}

// updated returns the claims with an Update.
func updated(c limitertest.Config, f func(m *mutant, n int) error) limitertest.Config {
	c.Update = func(l core.Limiter, n int) error { return f(l.(*mutant), n) }
	return c
}

// plainMutant is a mutant of slots that is in order.
func plainMutant() core.Limiter { return &mutant{Limiter: concurrency(queue, core.OldestFirst)} }

// noPlace makes limiters whose reservations have a delay, and no place in the queue.
func noPlace(c limitertest.Config) func() core.Limiter {
	return mutated(c, func(m *mutant) {
		m.reserve = func(n int) core.Lease {
			l := m.Limiter.TryAcquire(n)
			if d, ok := core.RetryAfter.From(l); ok {
				return core.Grant(n, nil, core.Delay.With(d))
			}
			return l.With(core.Delay.With(0))
		}
	})
}

// retryAfterOff makes tries that are off by d.
func retryAfterOff(c limitertest.Config, off time.Duration) func() core.Limiter {
	return tries(c, func(m *mutant, n int) core.Lease {
		l := m.Limiter.TryAcquire(n)
		if d, ok := core.RetryAfter.From(l); ok {
			return l.With(core.RetryAfter.With(d + off))
		}
		return l
	})
}

// refundsBy makes leases that are settled as they should be, and refunded by a function.
func refundsBy(refund func(l core.Lease)) func(m *mutant) {
	return func(m *mutant) {
		m.settle = func(l core.Lease, permits int) core.Lease {
			if permits == 0 {
				refund(l)
				return l
			}
			return l.Settle(permits)
		}
	}
}

// oldRefund and oldSettle are limiters with methods that are never called.
type (
	oldRefund struct{ limiterOnly }
	oldSettle struct{ limiterOnly }

	limiterOnly interface{ core.Limiter }
)

func (oldRefund) Refund(core.Lease) {}

func (oldSettle) Settle(l core.Lease, _ int) core.Lease { return l }

// racy is a limiter that looks, and then takes.
type racy struct{ free *atomic.Int64 }

func free(n int64) *atomic.Int64 {
	v := new(atomic.Int64)
	v.Store(n)
	return v
}

func (r *racy) TryAcquire(n int) core.Lease {
	if r.free.Load() < int64(n) {
		return core.Reject()
	}
	time.Sleep(1 * time.Nanosecond)
	r.free.Add(-int64(n))
	return core.Grant(n, func() { r.free.Add(int64(n)) })
}

func (r *racy) Acquire(_ context.Context, n int) (core.Lease, error) {
	l := r.TryAcquire(n)
	return l, l.Err()
}

func (r *racy) Available() int { return max(int(r.free.Load()), 0) }

// Each rule has a limiter that breaks it, and is told that it does.
func TestNamesTheRuleThatIsBroken(t *testing.T) {
	tested := map[string]bool{}
	for _, b := range slices.Concat(brokenLimiters, brokenSettlers) {
		tested[b.rule] = true
		t.Run(b.rule+"/"+b.fault, func(t *testing.T) {
			if testkit.Race && b.rule == "concurrent callers" {
				t.Skip("the race detector would find it first, and fail this test")
			}
			b.config.New = b.make
			v := limitertest.Judge(t, b.config, b.rule)
			require.Empty(t, v.Skipped)
			require.NotEmpty(t, v.Faults)
			t.Log(v.Faults)
		})
	}
	for _, name := range limitertest.PartNames() {
		require.True(t, tested[name], "no limiter breaks %q", name)
	}
}

// claims reports an order that it does not keep.
type claims struct {
	mutant

	order core.QueueOrder
}

func (c *claims) QueueOrder() core.QueueOrder { return c.order }

// claiming returns a maker of limiters that serve the oldest first, and report another order.
func claiming(order core.QueueOrder, room int) func() core.Limiter {
	return func() core.Limiter {
		return &claims{mutant{Limiter: concurrency(room, core.OldestFirst)}, order}
	}
}
