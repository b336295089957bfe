package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// deafMute is a reply that comes long after the context has ended.
func deafMute(context.Context, func() ([]int64, error)) ([]int64, error) {
	time.Sleep(time.Minute)
	return nil, errGone
}

var errUser = errors.New("a user's error")

var perSecond = core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 5}

// Whatever the store does, a decision is made within Timeout. After three failures it takes no time. The error has the reason, and
// matches the client's error, but never context.DeadlineExceeded, which stands for the caller's deadline.
func TestUnavailableDecidesInTime(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	fails := func(err error) reply {
		return func(context.Context, func() ([]int64, error)) ([]int64, error) { return nil, err }
	}
	for name, c := range map[string]struct {
		reply reply
		says  string
		is    error
	}{
		"refuses":                {fails(dial), dial.Error(), syscall.ECONNREFUSED},
		"client times out":       {fails(os.ErrDeadlineExceeded), "i/o timeout", os.ErrDeadlineExceeded},
		"hangs":                  {hangs, "no answer within 50ms", redislimit.ErrTimeout},
		"ignores the context":    {deafMute, "no answer within 50ms", redislimit.ErrTimeout},
		"replies with an error":  {fails(redislimit.Refused(errUser)), errUser.Error(), redislimit.ErrRefused},
		"returns something else": {func(context.Context, func() ([]int64, error)) ([]int64, error) { return []int64{0, 1}, nil }, "unexpected reply", redislimit.ErrStore},
	} {
		for _, down := range []redislimit.Unavailable{redislimit.FailClosed, redislimit.FailOpen, redislimit.UseLocal} {
			for _, isReady := range []bool{false, true} {
				if isReady && name == "ignores the context" {
					continue
				}
				t.Run(fmt.Sprintf("%s, %v, ready %t", name, down, isReady), func(t *testing.T) {
					bubble(t, func(t *testing.T, s *server) {
						local := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second}))
						o := s.shared("key")
						o.Unavailable, o.Local = down, local
						if isReady {
							o.Store = ready{s.store}
						}
						l := bucket(t, o, perSecond)
						s.store.answer(c.reply)
						for i := range 5 {
							start := time.Now()
							var lease core.Lease
							if i%2 == 0 {
								lease = l.TryAcquire(1)
							} else {
								lease, _ = l.Acquire(context.Background(), 1) //nolint:usetesting // it has no deadline
							}
							took := time.Since(start)
							require.LessOrEqual(t, took, 50*time.Millisecond)
							if i >= 3 {
								require.Zero(t, took, "the breaker is open")
							}
							switch {
							case down == redislimit.FailClosed:
								require.ErrorIs(t, lease.Err(), redislimit.ErrStore)
								require.ErrorIs(t, lease.Err(), c.is)
								require.ErrorContains(t, lease.Err(), "redislimit: the store is unreachable: "+c.says)
								require.NotErrorIs(t, lease.Err(), core.ErrRejected)
								require.NotErrorIs(t, lease.Err(), context.DeadlineExceeded)
								require.Equal(t, errors.Is(c.is, redislimit.ErrRefused), errors.Is(lease.Err(), redislimit.ErrRefused))
								require.Equal(t, errors.Is(c.is, redislimit.ErrTimeout), errors.Is(lease.Err(), redislimit.ErrTimeout))
							case down == redislimit.UseLocal && i >= 2:
								require.ErrorIs(t, lease.Err(), core.ErrRejected)
							default:
								require.True(t, lease.Acquired())
								require.Equal(t, 1, lease.Permits())
								lease.Release()
							}
						}
						st := l.Statistics()
						want := map[redislimit.Unavailable][2]uint64{
							redislimit.FailClosed: {0, 5}, redislimit.FailOpen: {5, 0}, redislimit.UseLocal: {2, 3},
						}[down]
						require.Equal(t, want, [2]uint64{st.Granted, st.Rejected})
						require.Equal(t, 5, st.Available, "the number that was known last")
						s.store.answer(nil)
						time.Sleep(time.Hour)
						takes(t, l, 5)
					})
				})
			}
		}
	}
}

// Watch is called at the third failure in a row, and at the first success after that.
func TestWatch(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var states []bool
		var l *redislimit.Limiter
		o := s.shared("key")
		l = bucket(t, o, perSecond)
		stop := redislimit.Watch(o.Store, func(up bool, err error) {
			states = append(states, up)
			require.Equal(t, up, err == nil)
			l.Available() // no lock is held
		})
		defer stop()
		s.store.answer(gone)
		l.TryAcquire(1)
		l.TryAcquire(1)
		s.store.answer(nil)
		takes(t, l, 1)
		s.store.answer(gone)
		l.TryAcquire(1)
		l.TryAcquire(1)
		synctest.Wait()
		require.Empty(t, states, "not three in a row")
		s.store.answer(nil)
		takes(t, l, 1)
		s.store.answer(gone)
		for range 2 { // the second outage is as the first
			for range 3 {
				l.TryAcquire(1)
			}
			synctest.Wait()
			require.Equal(t, []bool{false}, states)
			before := s.store.runs.Load()
			for range 1000 {
				l.TryAcquire(1)
				time.Sleep(10 * time.Millisecond)
			}
			require.Equal(t, int64(6), s.store.runs.Load()-before, "after 100 ms, 300, 700, …, 6.3 s")
			s.store.answer(nil)
			time.Sleep(5 * time.Second)
			takes(t, l, 1)
			synctest.Wait()
			require.Equal(t, []bool{false, true}, states)
			states = nil
			s.store.answer(gone)
		}
	})
}

// One probe at a time goes out, and no other caller waits for it.
func TestOneProbe(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), perSecond)
		s.store.answer(gone)
		for range 3 {
			l.TryAcquire(1)
		}
		time.Sleep(time.Second)
		s.store.answer(hangs)
		probing := make(chan time.Duration)
		start := time.Now()
		go func() {
			l.TryAcquire(1)
			probing <- time.Since(start)
		}()
		synctest.Wait()
		before := s.store.runs.Load()
		for range 10 {
			require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrStore)
		}
		require.Zero(t, time.Since(start))
		require.Equal(t, before, s.store.runs.Load())
		require.Equal(t, 50*time.Millisecond, <-probing)
	})
}

// A caller that gives up while its request is in flight returns immediately, and its permits are returned.
func TestCancelWhileTheStoreIsAsked(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 1})
		s.store.answer(lagging(20 * time.Millisecond))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := l.Acquire(ctx, 1)
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, 10*time.Millisecond, time.Since(start))
		time.Sleep(time.Second)
		require.Equal(t, 1, l.Available())
		require.Zero(t, l.Statistics().Granted)

		// So are permits that are granted after Timeout.
		s.store.answer(lagging(time.Second))
		require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrStore)
		s.store.answer(nil)
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, l.Available())
	})
}

// While the store does not reply, an Acquire ends with its context, whether its request is in flight or queued.
func TestCancelWhileTheStoreIsSilent(t *testing.T) {
	for _, waits := range []bool{false, true} {
		for _, isReady := range []bool{false, true} {
			bubble(t, func(t *testing.T, s *server) {
				o := s.shared("key")
				if o.Timeout = time.Minute; isReady {
					o.Store = ready{s.store}
				}
				l := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
				held := takes(t, l, 1)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				if !waits {
					s.store.answer(hangs)
				}
				waiter := ask(ctx, l, 1)
				s.store.answer(hangs) // for a waiter, from its next call on
				start := time.Now()
				require.Equal(t, context.DeadlineExceeded, <-waiter.over)
				require.Equal(t, 2*time.Second, time.Since(start))
				s.store.answer(nil)
				time.Sleep(2 * time.Minute)
				held.Release()
				require.Equal(t, 1, l.Available())
			})
		}
	}
}

// Another kind of limit under the same key is an error that names both, and not a failure of the store.
func TestAnotherKindIsThere(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		o.Unavailable = redislimit.FailOpen
		limiters := map[string]everything{
			"a token bucket":      bucket(t, o, perSecond),
			"a fixed window":      fixed(t, o, core.FixedWindowOptions{PermitLimit: 5, Window: time.Second}),
			"a sliding window":    sliding(t, o, core.SlidingWindowOptions{PermitLimit: 5, Window: time.Second, SegmentsPerWindow: 2}),
			"a concurrency limit": concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 5}),
		}
		for there, l := range limiters {
			lease := takes(t, l, 1)
			for name, other := range limiters {
				if name == there {
					continue
				}
				for range 4 {
					require.EqualError(t, other.TryAcquire(1).Err(), fmt.Sprintf("redislimit: the key %q holds %s, want %s", "key", there, name))
				}
			}
			lease.Release()
			s.redis.FlushAll()
		}
		require.NoError(t, s.redis.Set("{key}:limit", "garbage"))
		for name, l := range limiters {
			require.EqualError(t, l.TryAcquire(1).Err(), fmt.Sprintf("redislimit: the key %q holds something else, want %s", "key", name))
		}
		s.redis.FlushAll()
		require.NoError(t, s.redis.Set("{key}:leases", "garbage"))
		for range 4 {
			require.EqualError(t, limiters["a concurrency limit"].TryAcquire(1).Err(), `redislimit: the key "key" holds something else, want a concurrency limit`)
		}
	})
}

// All invalid options are reported together.
func TestOptions(t *testing.T) {
	_, err := redislimit.New(core.TokenBucketOptions{TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, ManualReplenishment: true}, redislimit.Options{Timeout: -1, Unavailable: 7, Prefetch: -1, TTL: -1})
	for _, want := range []string{
		"core: TokenBucketOptions.TokenLimit = 0, want at least 1",
		"redislimit: TokenBucketOptions.ManualReplenishment = true",
		"redislimit: Options.Store = nil, want a store",
		"redislimit: Options.Key = \"\", want a name without braces",
		"redislimit: Options.Timeout = -1ns, want at least 0",
		"redislimit: Options.Unavailable = Unavailable(7), want FailClosed, FailOpen or UseLocal",
		"redislimit: Options.Prefetch = -1, want at least 0",
		"redislimit: Options.TTL = -1ns",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = redislimit.New(core.FixedWindowOptions{PermitLimit: 1, Window: 1500}, redislimit.Options{Store: deaf{}, Key: "k", Unavailable: redislimit.UseLocal})
	require.EqualError(t, err, `redislimit: FixedWindowOptions.Window = 1.5µs, want whole microseconds
redislimit: Options.Local = nil, want a limiter, for UseLocal`)
	tooMany := int64(1<<52 + 1)
	_, err = redislimit.New(core.FixedWindowOptions{PermitLimit: int(tooMany), Window: time.Second}, redislimit.Options{Store: deaf{}, Key: "k"})
	if strconv.IntSize > 32 { // else it is no int
		require.EqualError(t, err, "redislimit: FixedWindowOptions.PermitLimit = 4503599627370497, want at most 2^52")
	}
	for ttl, want := range map[time.Duration]string{
		10*time.Millisecond + 1: "Options.TTL = 10.000001ms, want whole microseconds",
		math.MaxInt64:           "Options.TTL = 2562047h47m16.854775807s, want at most 2^52 µs",
	} {
		_, err = redislimit.New(core.ConcurrencyLimiterOptions{PermitLimit: 1}, redislimit.Options{Store: deaf{}, Key: "k", TTL: ttl})
		require.ErrorContains(t, err, want)
	}

	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), perSecond)
		o := perSecond
		require.NoError(t, l.Apply(o), "the same")
		o.TokenLimit = 0
		require.EqualError(t, l.Apply(o), "core: TokenBucketOptions.TokenLimit = 0, want at least 1")
		require.EqualError(t, l.Apply(core.FixedWindowOptions{PermitLimit: 1, Window: time.Second}), `redislimit: "key" is a token bucket, want no fixed window`)
		require.EqualError(t, l.Apply(nil), "redislimit: limit = <nil>, want options of a limiter of package core")
		require.Equal(t, 5, l.Statistics().Limit)
		o.TokenLimit = 7
		require.NoError(t, l.Apply(o))
		require.Equal(t, 7, l.Statistics().Limit)
		require.NoError(t, l.Close())
		require.Equal(t, core.ErrClosed, l.Apply(o))
		var zero redislimit.Limiter
		require.Equal(t, core.ErrClosed, zero.TryAcquire(1).Err())
		require.Equal(t, core.ErrClosed, zero.Apply(o))
		require.Equal(t, core.ErrClosed, zero.TryReset())
		require.NoError(t, zero.Close())
		require.Equal(t, core.Statistics{}, zero.Statistics())
		_ = zero.String()
	})
}

// Unavailable decides every request, also while a caller waits in the queue.
func TestUnavailableDecidesWhileACallerWaits(t *testing.T) {
	for _, down := range []redislimit.Unavailable{redislimit.FailClosed, redislimit.FailOpen, redislimit.UseLocal} {
		for _, kind := range []string{"bucket", "fixed", "sliding", "concurrency"} {
			t.Run(fmt.Sprintf("%v, %s", down, kind), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *server) {
					o := s.shared("key")
					o.Unavailable, o.Local = down, core.Unlimited()
					l := ofKind(t, kind, o, 2)
					takes(t, l, 2)
					waiter := ask(t.Context(), l, 1)
					s.store.answer(gone)
					time.Sleep(5 * time.Second) // the waiter asks, and the breaker opens
					for i := range 20 {
						lease := l.TryAcquire(1)
						if i%2 == 1 {
							var err error
							lease, err = l.Acquire(t.Context(), 1)
							require.Equal(t, lease.Err(), err)
						}
						if down == redislimit.FailClosed {
							require.ErrorIs(t, lease.Err(), redislimit.ErrStore)
						} else {
							require.NoError(t, lease.Err())
						}
					}
					require.Empty(t, waiter.over)
					require.NoError(t, l.Close())
					require.ErrorIs(t, <-waiter.over, core.ErrClosed)
				})
			})
		}
	}
}

// A server that replies is not unreachable, even if all that it replies are errors: requests for one key that it refuses do not
// affect another key.
func TestARefusedKeyAffectsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		forbidden := s.shared("forbidden")
		forbidden.Store = refusing{s.store, "{forbidden}:limit"}
		refused, served := bucket(t, forbidden, perSecond), bucket(t, s.shared("key"), core.PerSecond(100, 100))
		for range 20 {
			err := refused.TryAcquire(1).Err()
			require.ErrorIs(t, err, redislimit.ErrStore)
			require.ErrorIs(t, err, redislimit.ErrRefused)
			takes(t, served, 1)
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// refusing is a store of a server that replies with an error to each call for a key.
type refusing struct {
	*counting

	key string
}

func (r refusing) Run(ctx context.Context, s *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	if keys[0] == r.key {
		return nil, redislimit.Refused(errUser)
	}
	return r.counting.Run(ctx, s, keys, args...)
}

func (r refusing) Client() any  { return r.counting }
func (c *counting) Client() any { return c }

// A server that is far away serves all callers within Timeout: whoever comes while a call is in flight does not wait for its end.
func TestAFarServerServesAllCallers(t *testing.T) {
	for _, callers := range []int{1, 2, 16} {
		for _, away := range []time.Duration{10 * time.Millisecond, 30 * time.Millisecond, 40 * time.Millisecond} {
			t.Run(fmt.Sprintf("%d callers, %v", callers, away), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *server) {
					s.store.answer(delayed(away))
					l := bucket(t, s.shared("key"), core.PerSecond(100_000, 100_000))
					const each = 100
					var all sync.WaitGroup
					for i := range callers {
						all.Go(func() {
							time.Sleep(time.Duration(i) * 7 * time.Millisecond)
							for range each {
								assert.NoError(t, l.TryAcquire(1).Err())
							}
						})
					}
					all.Wait()
					require.Equal(t, uint64(callers*each), l.Statistics().Granted)
					require.LessOrEqual(t, s.store.runs.Load(), int64(callers*each))
				})
			})
		}
	}
}
