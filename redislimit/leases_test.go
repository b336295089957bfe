package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// bubble runs a test in a bubble, with a server.
func bubble(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, serve(t)) })
}

// Two limiters, as in two processes, share one limit, and a lease's permits stay held for as long as its holder renews it.
func TestLeasesAreRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		o.TTL = time.Second
		a, b := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 3}), concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 3})
		l := takes(t, a, 2)
		ctx := redislimit.Context(t.Context(), l)
		for range 100 {
			time.Sleep(time.Second)
			require.Equal(t, 1, b.Available())
		}
		require.NoError(t, ctx.Err())
		refuses(t, b, 2)
		l.Release()
		require.Equal(t, context.Canceled, context.Cause(ctx))
		takes(t, b, 3).Release()
		require.Equal(t, context.Canceled, context.Cause(redislimit.Context(t.Context(), l)), "released before")
		synctest.Wait()
	})
}

// A lease that cannot be renewed is lost. Its context ends before another process gets the permits, and its release has no effect
// on other leases.
func TestALeaseIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		o.TTL = time.Second
		a := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 1})
		other := o
		other.Store = s.plain
		b := concurrency(t, other, core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
		start := time.Now()
		l := takes(t, a, 1)
		ctx := redislimit.Context(t.Context(), l)
		s.store.answer(gone)
		var lostAt, grantedAt time.Duration
		stop := context.AfterFunc(ctx, func() { lostAt = time.Since(start) })
		defer stop()
		theirs, err := b.Acquire(t.Context(), 1)
		require.NoError(t, err)
		grantedAt = time.Since(start)
		synctest.Wait()
		require.Equal(t, redislimit.ErrLeaseLost, context.Cause(ctx))
		require.Equal(t, 900*time.Millisecond, lostAt)
		require.GreaterOrEqual(t, grantedAt, time.Second)
		require.Equal(t, redislimit.ErrLeaseLost, context.Cause(redislimit.Context(t.Context(), l)), "lost before")
		s.store.answer(nil)
		l.Release()
		require.Zero(t, b.Available(), "permits that another process holds stay held")
		token, ok := redislimit.FencingToken.From(l)
		require.True(t, ok)
		next, _ := redislimit.FencingToken.From(theirs)
		require.Greater(t, next, token)
		require.GreaterOrEqual(t, token, uint64(start.UnixMicro()))
		theirs.Release()
	})
}

// Through a chain, and of a copy, the context ends when any of its leases is lost, here because the server has lost its data.
func TestContextOfAChain(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o, p := s.shared("one"), s.shared("two")
		o.TTL, p.TTL = 3*time.Second, 3*time.Second
		a := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 2})
		b := concurrency(t, p, core.ConcurrencyLimiterOptions{PermitLimit: 2})
		chain, err := core.Chain(a, core.Unlimited(), b)
		require.NoError(t, err)
		l := takes(t, chain, 1)
		ctx := redislimit.Context(t.Context(), l.With(core.ReasonPhrase.With("copied")))
		s.redis.Del("{two}:limit")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, redislimit.ErrLeaseLost, context.Cause(ctx))
		l.Release()
		require.Equal(t, 2, a.Available())

		l = takes(t, chain, 1)
		ctx = redislimit.Context(t.Context(), l)
		l.Release()
		require.Equal(t, context.Canceled, context.Cause(ctx))

		rates := bucket(t, s.shared("rate"), core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		require.Equal(t, t.Context(), redislimit.Context(t.Context(), takes(t, rates, 1)), "of a rate")
		require.Equal(t, t.Context(), redislimit.Context(t.Context(), core.Lease{}))
	})
}

// A caller that waits in one process is served when another process releases: immediately if the store can subscribe, otherwise
// within a second.
func TestAReleaseServesWaitersOfOtherProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		for _, c := range []struct {
			name  string
			store redislimit.Store
			after time.Duration
		}{{"subscribed", s.store, 0}, {"polling", deaf{s.store}, 900 * time.Millisecond}} {
			o := s.shared(c.name)
			o.Store = c.store
			a := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
			b := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
			l := takes(t, a, 1)
			var released time.Time
			time.AfterFunc(100*time.Millisecond, func() {
				released = time.Now()
				l.Release()
			})
			m, err := b.Acquire(t.Context(), 1)
			require.NoError(t, err)
			require.Equal(t, c.after, time.Since(released), c.name)
			m.Release()
		}
	})
}

// deaf is a store that cannot subscribe.
type deaf struct{ redislimit.Store }

func (deaf) Subscribe(context.Context, string, func()) (func(), error) {
	return nil, errors.ErrUnsupported
}

// A release that does not reach the store is sent again soon, and not only when other leases are renewed.
func TestAReleaseIsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		other := o
		other.Store = s.plain
		a, b := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 6}), concurrency(t, other, core.ConcurrencyLimiterOptions{PermitLimit: 6})
		held := takes(t, a, 1)
		var leases []core.Lease
		for range 5 {
			leases = append(leases, takes(t, a, 1))
		}
		s.store.answer(gone)
		for _, l := range leases { // after three the breaker is open
			start := time.Now()
			l.Release()
			require.LessOrEqual(t, time.Since(start), 50*time.Millisecond)
			time.Sleep(60 * time.Millisecond)
		}
		require.Zero(t, b.Available())
		s.store.answer(nil)
		time.Sleep(time.Second)
		require.Equal(t, 5, b.Available())
		held.Release()
		require.Equal(t, 6, b.Available())
	})
}

// canceledLate is a context that is canceled after the grant, but before Acquire returns.
type canceledLate struct {
	context.Context

	looks atomic.Int32
}

func (*canceledLate) Done() <-chan struct{} { return make(chan struct{}) }

func (c *canceledLate) Err() error {
	if c.looks.Add(1) == 1 {
		return nil
	}
	return context.Canceled
}

// A caller whose context ends when it is granted permits gets the context's error. The permits are returned, and the grant does
// not count, whether the caller has waited or not, and also if it asked for no permits.
func TestAGrantThatComesWithTheCancelIsReturned(t *testing.T) {
	for _, kind := range []string{"bucket", "fixed", "sliding", "concurrency"} {
		for _, permits := range []int{0, 3} {
			for _, waits := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d permits, waits %t", kind, permits, waits), func(t *testing.T) {
					bubble(t, func(t *testing.T, s *server) {
						l := ofKind(t, kind, s.shared("key"), 5)
						before := uint64(0)
						if waits {
							held := takes(t, l, 5)
							time.AfterFunc(time.Minute, held.Release)
							before = 1
						}
						lease, err := l.Acquire(&canceledLate{Context: t.Context()}, permits)
						require.Equal(t, context.Canceled, err)
						require.False(t, lease.Acquired())
						synctest.Wait()
						require.Equal(t, before, l.Statistics().Granted)
						require.Equal(t, 5, l.Available())
					})
				})
			}
		}
	}
}

func TestCloseKeepsLeases(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		o.TTL = time.Second
		a, b := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 1}), concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 1})
		l := takes(t, a, 1)
		require.NoError(t, a.Close())
		time.Sleep(10 * time.Second)
		require.Zero(t, b.Available(), "still held")
		l.Release()
		require.Equal(t, 1, b.Available())
	})
}

// A server whose memory is full may drop one of a limit's two keys. Then the limit starts again, and its holders lose their leases.
func TestAKeyIsDropped(t *testing.T) {
	for _, dropped := range []string{"{key}:limit", "{key}:leases"} {
		bubble(t, func(t *testing.T, s *server) {
			l := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 4})
			one, other := takes(t, l, 1), takes(t, l, 2)
			s.redis.Del(dropped)
			require.Equal(t, 4, l.Available())
			one.Release()
			all := takes(t, l, 4)
			other.Release()
			require.Zero(t, l.Available())
			all.Release()
			require.Equal(t, 4, l.Available())
		})
	}
}

// Leases of a process that has gone expire together. No script removes more than 100 of them, and the decision is exact.
func TestManyLeasesExpireTogether(t *testing.T) {
	for _, leases := range []int{1, 100, 101, 200, 450} {
		bubble(t, func(t *testing.T, s *server) {
			gone := s.shared("key")
			cut := &counting{Store: s.plain}
			gone.Store = cut
			theirs := concurrency(t, gone, core.ConcurrencyLimiterOptions{PermitLimit: 1000})
			for range leases {
				takes(t, theirs, 1)
			}
			cut.answer(func(context.Context, func() ([]int64, error)) ([]int64, error) { return nil, errGone })
			l := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 1000})
			mine := takes(t, l, 7)
			require.Equal(t, 1000-leases-7, l.Available())
			members := func() int {
				all, _ := s.redis.ZMembers("{key}:limit") // none if there is no such key
				return len(all)
			}
			had := members()
			s.store.answer(func(_ context.Context, next func() ([]int64, error)) ([]int64, error) {
				reply, err := next()
				assert.LessOrEqual(t, had-members(), 100)
				had = members()
				return reply, err
			})
			time.Sleep(40 * time.Second)
			require.Equal(t, 1000-7, l.Available())
			mine.Release()
			require.Equal(t, 1000, l.Available())
		})
	}
}
