//go:build unix

package adaptertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
)

// permissions are those that docs/distributed.md lists.
const permissions = "~{key}:* +evalsha +eval +time +type +exists +del +pexpire +get +set +hget +hmget +hset +hdel " +
	"+zadd +zcard +zrange +zrangebyscore +zrem +zscore +ping +client +hello"

// A Redis user needs few permissions. Without those for the channel, releases work, and waiters poll once a
// second.
func testPermissions(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	for name, channel := range map[string]string{
		"with a channel":    " resetchannels &{key}:limit:released +publish +subscribe",
		"without a channel": " resetchannels +publish +subscribe",
		"without publish":   " resetchannels",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onPrograms(t, func(t *testing.T, program string) {
				t.Helper()
				s := realserver.Start(t, program)
				admin := s.Client()
				defer admin.Close()
				user := []any{"ACL", "SETUSER", "limiter", "reset", "on", ">secret"}
				for rule := range strings.FieldsSeq(permissions + channel) {
					user = append(user, rule)
				}
				require.NoError(t, admin.Do(t.Context(), user...).Err())
				permitted(t, connect(t, Servers{Addrs: []string{s.Addr}, User: "limiter", Password: "secret"}), name == "with a channel")
			})
		})
	}
}

// subscribing is a store that reports the result of a subscription.
type subscribing struct {
	redislimit.Store

	results chan error
}

func (s subscribing) Subscribe(ctx context.Context, channel string, f func()) (func(), error) {
	stop, err := s.Store.Subscribe(ctx, channel, f)
	select {
	case s.results <- err:
	default:
	}
	return stop, err
}

// reporting is a store that reports the errors of scripts.
type reporting struct {
	redislimit.Store

	failures chan error
}

func (r reporting) Run(ctx context.Context, s *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	reply, err := r.Store.Run(ctx, s, keys, args...)
	if err != nil {
		r.failures <- err
	}
	return reply, err
}

// permitted uses each kind of limiter. A release succeeds even if the user must not publish it.
func permitted(t *testing.T, store redislimit.Store, hears bool) {
	t.Helper()
	o := redislimit.Options{Store: store, Key: "key", Timeout: patient, Prefetch: 1}
	b := limiter(t, o, core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 1})
	taken := takes(t, b, 2)
	late := b.Reserve(1)
	require.NoError(t, late.Err())
	late.Refund()
	taken.Refund()
	w := limiter(t, o, core.SlidingWindowOptions{PermitLimit: 2, Window: time.Hour, SegmentsPerWindow: 10})
	lease := takes(t, w, 1)
	require.ErrorContains(t, b.TryAcquire(1).Err(), "holds a sliding window")
	lease.Refund()
	options := core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1}
	failures := make(chan error, 100)
	o.Store = reporting{store, failures}
	here := limiter(t, o, options)
	results := make(chan error, 1)
	o.Store = subscribing{store, results}
	there := limiter(t, o, options)
	held := takes(t, here, 1)
	waiter := make(chan core.Lease)
	go func() {
		lease, _ := there.Acquire(t.Context(), 1)
		waiter <- lease
	}()
	require.Equal(t, hears, <-results == nil)
	held.Release()
	theirs := <-waiter
	require.NoError(t, theirs.Err())
	require.Equal(t, 0, here.Available())
	theirs.Release()
	require.Equal(t, 1, here.Available())
	require.Empty(t, failures)
}
