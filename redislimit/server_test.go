package redislimit_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// server is a Redis in memory, with connections in memory, that lives in a bubble.
type server struct {
	redis  *miniredis.Miniredis
	client *redis.Client
	store  *counting
	plain  redislimit.Store // the same, without the other replies
}

func newServer() *server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	s := &server{redis: m}
	s.client = redis.NewClient(&redis.Options{
		Addr:                     "192.0.2.1:6379", // NewClient would look a name up
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		DisableIdentity:          true,
		MaxRetries:               -1,
		Protocol:                 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.plain = scripts{s.client}
	s.store = &counting{Store: s.plain}
	return s
}

func (s *server) close() {
	_ = s.client.Close()
	s.redis.Close()
}

// scripts is a store without what the adapters add for real servers. They are modules of their own, and test that there.
type scripts struct{ client *redis.Client }

func (s scripts) Client() any { return s.client }

func (s scripts) Run(ctx context.Context, script *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	all := make([]any, len(args))
	for i, n := range args {
		all[i] = n
	}
	reply, err := s.client.EvalSha(ctx, script.SHA1(), keys, all...).Int64Slice()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = s.client.Eval(ctx, script.Source(), keys, all...).Int64Slice()
	}
	var refusal redis.Error
	if errors.As(err, &refusal) {
		return nil, redislimit.Refused(err)
	}
	return reply, err
}

func (s scripts) Subscribe(ctx context.Context, channel string, f func()) (func(), error) {
	sub := s.client.Subscribe(context.WithoutCancel(ctx), channel)
	if _, err := sub.Receive(ctx); err != nil {
		_ = sub.Close() // the error is known
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer redislimit.SubscriptionEnded(ctx)
		for {
			if _, err := sub.ReceiveMessage(context.WithoutCancel(ctx)); err != nil {
				return
			}
			f()
		}
	}()
	return func() {
		_ = sub.Close() // ends the goroutine
		<-ended
	}, nil
}

// serve returns a server for the test.
func serve(t *testing.T) *server {
	t.Helper()
	s := newServer()
	t.Cleanup(s.close)
	return s
}

// reply replies to a call in the store's place; next makes the call, which does not end with the context.
type reply = func(ctx context.Context, next func() ([]int64, error)) ([]int64, error)

var errGone = errors.New("gone")

// gone is the reply of a store that is unreachable.
func gone(context.Context, func() ([]int64, error)) ([]int64, error) { return nil, errGone }

// lost is a reply that is lost.
func lost(_ context.Context, next func() ([]int64, error)) ([]int64, error) {
	_, _ = next()
	return nil, errGone
}

// hangs is a reply that comes when the context ends.
func hangs(ctx context.Context, _ func() ([]int64, error)) ([]int64, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// delayed returns a reply to a call that takes d to reach the store.
func delayed(d time.Duration) reply {
	return func(_ context.Context, next func() ([]int64, error)) ([]int64, error) {
		time.Sleep(d)
		return next()
	}
}

// lagging returns a reply that takes d to come back.
func lagging(d time.Duration) reply {
	return func(_ context.Context, next func() ([]int64, error)) ([]int64, error) {
		got, err := next()
		time.Sleep(d)
		return got, err
	}
}

// counting is a store that counts its calls, and may reply in another way.
type counting struct {
	redislimit.Store

	runs atomic.Int64
	mu   sync.Mutex
	run  reply
}

func (c *counting) answer(f reply) {
	c.mu.Lock()
	c.run = f
	c.mu.Unlock()
}

func (c *counting) Run(ctx context.Context, s *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	c.runs.Add(1)
	c.mu.Lock()
	f := c.run
	c.mu.Unlock()
	if f == nil {
		return c.Store.Run(ctx, s, keys, args...)
	}
	return f(ctx, func() ([]int64, error) { return c.Store.Run(context.WithoutCancel(ctx), s, keys, args...) })
}

// shared returns the shared options for a key on the server.
func (s *server) shared(key string) redislimit.Options {
	return redislimit.Options{Store: s.store, Key: key, Prefetch: 1}
}

func bucket(t *testing.T, s redislimit.Options, o core.TokenBucketOptions) *redislimit.Limiter {
	t.Helper()
	l, err := redislimit.New(o, s)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func fixed(t *testing.T, s redislimit.Options, o core.FixedWindowOptions) *redislimit.Limiter {
	t.Helper()
	l, err := redislimit.New(o, s)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func sliding(t *testing.T, s redislimit.Options, o core.SlidingWindowOptions) *redislimit.Limiter {
	t.Helper()
	l, err := redislimit.New(o, s)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func concurrency(t *testing.T, s redislimit.Options, o core.ConcurrencyLimiterOptions) *redislimit.Limiter {
	t.Helper()
	l, err := redislimit.New(o, s)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// ofKind returns a limiter of a kind, with a queue. All permits of a rate limiter that are taken together come back together, a
// minute later.
func ofKind(t *testing.T, kind string, s redislimit.Options, limit int) everything {
	t.Helper()
	switch kind {
	case "bucket":
		return bucket(t, s, core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: limit, ReplenishmentPeriod: time.Minute, QueueLimit: limit})
	case "fixed":
		return fixed(t, s, core.FixedWindowOptions{PermitLimit: limit, Window: time.Minute, QueueLimit: limit})
	case "sliding":
		return sliding(t, s, core.SlidingWindowOptions{PermitLimit: limit, Window: time.Minute, SegmentsPerWindow: 4, QueueLimit: limit})
	}
	return concurrency(t, s, core.ConcurrencyLimiterOptions{PermitLimit: limit, QueueLimit: limit})
}

// takes finds that the permits are there, and takes them.
func takes(t *testing.T, l core.Limiter, permits int) core.Lease {
	t.Helper()
	lease := l.TryAcquire(permits)
	require.NoError(t, lease.Err())
	require.Equal(t, permits, lease.Permits())
	return lease
}

// refuses finds that the permits are not there.
func refuses(t *testing.T, l core.Limiter, permits int) core.Lease {
	t.Helper()
	lease := l.TryAcquire(permits)
	require.ErrorIs(t, lease.Err(), core.ErrRejected)
	return lease
}
