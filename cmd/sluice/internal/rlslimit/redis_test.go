package rlslimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/cmd/sluice/internal/rlslimit"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

// server is a redis-server that a test has started.
type server struct {
	socket  string
	process *exec.Cmd
}

// startRedis starts a server, or skips the test where there is none.
func startRedis(t *testing.T) *server {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server here")
	}
	s := &server{socket: filepath.Join(t.TempDir(), "redis")}
	s.process = exec.CommandContext(context.WithoutCancel(t.Context()), program, "--port", "0", "--unixsocket", s.socket, "--save", "", "--appendonly", "no")
	require.NoError(t, s.process.Start())
	t.Cleanup(func() {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
	})
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket})
	defer func() { _ = c.Close() }()
	require.Eventually(t, func() bool { return c.Ping(t.Context()).Err() == nil }, 20*time.Second, 5*time.Millisecond)
	return s
}

// client returns a store on the server.
func (s *server) client(t *testing.T) redislimit.Store {
	t.Helper()
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket})
	t.Cleanup(func() { _ = c.Close() })
	return goredis.New(c)
}

// shared returns a service on the server. A decision may take long, as other tests may keep the machine busy.
func (s *server) shared(t *testing.T, descriptors string) *rlslimit.Service {
	t.Helper()
	return service(t, descriptors, func(o *rlslimit.Options) {
		o.Store, o.Timeout = s.client(t), 10*time.Second
	})
}

func decided(answer string) string { // without the time until the window ends
	parts := strings.Split(answer, "; ")
	for i, p := range parts {
		parts[i], _, _ = strings.Cut(p, ",")
	}
	return strings.Join(parts, "; ")
}

// The rules are the same for limits on a server, which two services share.
func TestShared(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	const descriptors = `
- {key: a, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 10}}
- {key: b, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 2}}
- {key: bucket, limit: 10/day}
- {key: sliding, limit: sliding 10/day}
- {key: m, rate_limit: {unit: month, unit_multiplier: 7, requests_per_unit: 3}}
- {key: y, rate_limit: {unit: year, unit_multiplier: 7, requests_per_unit: 3}}
`
	one, other := redis.shared(t, descriptors), redis.shared(t, descriptors)
	for _, key := range []string{"m=x", "y=x"} { // months and years are those of the server's clock
		assert.Equal(t, "OK: OK 1/3 left", decided(ask(t, one, hits(2, key))))
		assert.Equal(t, "OK: OK 0/3 left", decided(ask(t, other, entries(key))))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/3 left", decided(ask(t, one, entries(key))))
	}
	both := []*envoy.RateLimitDescriptor{entries("a=x"), entries("b=x")}
	assert.Equal(t, "OK: OK 9/10 left; OK 1/2 left", decided(ask(t, one, both...)))
	assert.Equal(t, "OK: OK 8/10 left; OK 0/2 left", decided(ask(t, other, both...)))
	assert.Equal(t, "OVER_LIMIT: OK 8/10 left; OVER_LIMIT 0/2 left", decided(ask(t, one, both...)))
	assert.Equal(t, "OVER_LIMIT: OK 8/10 left; OVER_LIMIT 0/2 left", decided(ask(t, other, both...)))
	assert.Equal(t, "OK: OK 8/10 left", decided(ask(t, other, hits(0, "a=x"))))
	assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/10 left", decided(ask(t, one, hits(9, "a=x"))))
	assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/10 left", decided(ask(t, other, hits(0, "a=x"))))
	for _, key := range []string{"a", "bucket", "sliding"} {
		key += "=given"
		assert.Contains(t, ask(t, one, hits(8, key)), "OK: OK 2/10 left", key)
		assert.Contains(t, ask(t, other, back(5, key)), "OK: OK 7/10 left", key)
		assert.Contains(t, ask(t, one, back(1000, key)), "OK: OK 10/10 left", key)
		assert.Contains(t, ask(t, other, hits(10, key)), "OK: OK 0/10 left", key)
		assert.Contains(t, ask(t, one, hits(1, key)), "OVER_LIMIT", key)
		n, err := other.Reset(t.Context(), "d/"+strings.TrimSuffix(key, "=given"), "given")
		require.NoError(t, err)
		assert.GreaterOrEqual(t, n, 1)
		assert.Contains(t, ask(t, other, hits(3, key)), "OK: OK 7/10 left", key)
	}
}

// Two services under load never let more through than the limit.
func TestStressTwoServices(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	const limit, keys = 200, 20
	descriptors := fmt.Sprintf("- {key: k, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: %d}}\n- {key: l, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: %d}}", limit, 3*limit)
	services := []*rlslimit.Service{redis.shared(t, descriptors), redis.shared(t, descriptors)}
	var granted, also [keys]atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		s := services[i%2]
		all.Go(func() {
			for range 3 * keys * limit / 16 {
				k, l := rand.IntN(keys), rand.IntN(keys/4)
				r, err := s.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{
					entries(fmt.Sprintf("k=%d", k)), entries(fmt.Sprintf("l=%d", l)),
				}})
				if assert.NoError(t, err) && r.GetOverallCode() == ratelimit.RateLimitResponse_OK {
					granted[k].Add(1)
					also[l].Add(1)
				}
			}
		})
	}
	all.Wait()
	sum := int64(0)
	for k := range keys {
		assert.LessOrEqual(t, granted[k].Load(), int64(limit))
		assert.LessOrEqual(t, also[k].Load(), int64(3*limit))
		sum += granted[k].Load()
	}
	assert.Greater(t, sum, int64(keys*limit/2))
	for _, s := range services {
		for _, r := range s.Rules() {
			assert.Zero(t, r.Undecided, r.Name)
		}
	}
}

// failing is a store whose calls fail.
type failing func(ctx context.Context) error

func (f failing) Run(ctx context.Context, _ *redislimit.Script, _ []string, _ ...int64) ([]int64, error) {
	return nil, f(ctx)
}

func (failing) Subscribe(context.Context, string, func()) (func(), error) {
	return nil, errors.ErrUnsupported
}

// silent is the failure of a store that never responds.
func silent(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// While the store does not respond, a request is decided within 8 ms, and soon immediately, whatever its descriptors are.
func TestSilent(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{true, false} {
		t.Run(fmt.Sprintf("fail-open %v", open), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var calls atomic.Int64
				store := failing(func(ctx context.Context) error {
					calls.Add(1)
					return silent(ctx)
				})
				c := parse(t, fmt.Sprintf("domain: d\nfail-open: %v\ndescriptors:\n- {key: a, limit: 5/min}\n- {key: s, shadow_mode: true, limit: 5/min}", open))
				s, err := rlslimit.New(rlslimit.Options{Config: c, Store: store})
				require.NoError(t, err)
				want := "OVER_LIMIT: OVER_LIMIT 0/5 left; OVER_LIMIT 0/5 left; OK 5/5 left"
				if open {
					want = "OK: OK 5/5 left; OK 5/5 left; OK 5/5 left"
				}
				for i := range 2000 {
					start := time.Now()
					answer := ask(t, s, entries(fmt.Sprintf("a=%d", i)), entries("a=x"), entries("s=x"))
					assert.Equal(t, want, decided(answer))
					assert.LessOrEqual(t, time.Since(start), 8*time.Millisecond)
				}
				assert.LessOrEqual(t, calls.Load(), int64(60), "one probe every 50 ms, each of which takes a time")
				var unanswered uint64
				for _, r := range s.Rules() {
					unanswered += r.Undecided
				}
				assert.EqualValues(t, 3*2000, unanswered)
				assert.Equal(t, "OK: OK 5/5 left", decided(ask(t, s, back(1, "a=x"))), "hits that are returned do not reject")
				require.NoError(t, s.Close())
				time.Sleep(time.Minute)
				synctest.Wait()
			})
		})
	}
}

// A request at the start of a month, when limiters may get windows of other lengths, does not wait for the store either.
func TestSilentWhenAMonthStarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var away atomic.Bool
		s := service(t, "- {key: k, rate_limit: {unit: month, unit_multiplier: 2, requests_per_unit: 5}}", func(o *rlslimit.Options) {
			o.Store = failing(func(ctx context.Context) error {
				if away.Load() {
					return silent(ctx)
				}
				return redislimit.Refused(errors.New("no"))
			})
		})
		for m := range 12 {
			away.Store(false)
			for i := range 10 {
				assert.Equal(t, "OK: OK 5/5 left", decided(ask(t, s, entries(fmt.Sprintf("k=%d", i)))))
			}
			start := time.Date(2000, time.February+time.Month(m), 1, 0, 0, 0, 0, time.UTC)
			time.Sleep(time.Until(start))
			away.Store(true)
			assert.Equal(t, "OK: OK 5/5 left", decided(ask(t, s, entries("k=0"))))
			assert.LessOrEqual(t, time.Since(start), 8*time.Millisecond)
			time.Sleep(time.Minute)
		}
	})
}

// gate is a store that calls a function before each call, which fails if the function does.
type gate struct {
	redislimit.Store

	before atomic.Pointer[func() error]
}

func (g *gate) each(f func() error) { g.before.Store(&f) }

// together has the next n calls wait until all of them are in flight.
func (g *gate) together(n int64) {
	var calls atomic.Int64
	all := make(chan struct{})
	g.each(func() error {
		switch k := calls.Add(1); {
		case k == n:
			close(all)
		case k < n:
			<-all
		}
		return nil
	})
}

func (g *gate) Run(ctx context.Context, script *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	if err := (*g.before.Load())(); err != nil {
		return nil, err
	}
	return g.Store.Run(ctx, script, keys, args...)
}

// A request takes one round trip, however many descriptors it has. Permits that the store grants after the client has disconnected
// are returned.
func TestOneRoundTrip(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	store := &gate{Store: redis.client(t)}
	s := service(t, `
- {key: a, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 10}}
- {key: b, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 10}}
- {key: c, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 1}}
`, func(o *rlslimit.Options) {
		o.Store, o.Timeout = store, time.Minute
	})
	store.together(3)
	assert.Equal(t, "OK: OK 9/10 left; OK 9/10 left; OK 0/1 left", decided(ask(t, s, entries("a=x"), entries("b=x"), entries("c=x"))))
	store.together(1) // a request for more than the limit of c takes nothing of a and b
	assert.Equal(t, "OVER_LIMIT: OK 10/10 left; OK 10/10 left; OVER_LIMIT 0/1 left", decided(ask(t, s, entries("a=y"), entries("b=y"), hits(5, "c=y"))))
	isFull := func(value string) bool {
		return decided(ask(t, s, hits(0, "a="+value), hits(0, "b="+value))) == "OK: OK 10/10 left; OK 10/10 left"
	}
	require.Eventually(t, func() bool { return isFull("y") }, time.Minute, 10*time.Millisecond)

	come, open := make(chan struct{}), make(chan struct{})
	store.each(func() error {
		come <- struct{}{}
		<-open
		return nil
	})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-come
		<-come
		leave()
	}()
	_, err := s.ShouldRateLimit(ctx, &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{entries("a=z"), entries("b=z")}})
	assert.Equal(t, codes.Canceled, status.Code(err))
	store.each(func() error { return nil })
	close(open)
	require.Eventually(t, func() bool { return isFull("z") }, time.Minute, 10*time.Millisecond)
}

// Values for which there is no room share limiters that no client can name. Nor can a Key and a domain be mistaken for others.
func TestNamesOnTheStore(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	one := func(key, domain string) *rlslimit.Service {
		c := parse(t, "domain: "+domain+"\nkeys: 1\ndescriptors:\n- {key: u, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 1}}\n")
		s, err := rlslimit.New(rlslimit.Options{Config: c, Store: server.client(t), Key: key, Timeout: 10 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	code := func(s *rlslimit.Service, domain, value string) ratelimit.RateLimitResponse_Code {
		d := entries("u=")
		d.Entries[0].Value = value
		return full(t, s, &ratelimit.RateLimitRequest{Domain: domain, Descriptors: []*envoy.RateLimitDescriptor{d}}).GetOverallCode()
	}
	a := one("", "d")
	assert.Equal(t, ratelimit.RateLimitResponse_OK, code(a, "d", "alice"))
	assert.Equal(t, ratelimit.RateLimitResponse_OK, code(a, "d", "bob"), "a group")
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: server.socket})
	defer func() { _ = c.Close() }()
	names := make(map[string]bool) // a limiter may have several keys, all with its name
	for _, key := range c.Keys(t.Context(), "*").Val() {
		assert.True(t, strings.HasPrefix(key, "{sluice/rls/d/"), key)
		tag, _, _ := strings.Cut(key, "}")
		names[tag[strings.LastIndexByte(tag, '/')+1:]] = true
	}
	require.Len(t, names, 2)
	for name := range names {
		if name == "alice" {
			continue
		}
		for _, value := range []string{name, strings.Trim(name, "!~"), "~" + strings.Trim(name, "!~")} {
			b := one("", "d") // another process, which has room
			assert.Equal(t, ratelimit.RateLimitResponse_OK, code(b, "d", value), value)
		}
	}
	assert.Equal(t, ratelimit.RateLimitResponse_OK, code(one("x", "yz"), "yz", "v"))
	assert.Equal(t, ratelimit.RateLimitResponse_OK, code(one("xy", "z"), "z", "v"))
	assert.Equal(t, ratelimit.RateLimitResponse_OVER_LIMIT, code(one("xy/", "z"), "z", "v"))
}

// A store that does not decide is logged, and then once in a while, with the reason.
func TestUnreachableIsLogged(t *testing.T) {
	t.Parallel()
	refused := redislimit.Refused(errors.New("WRONGPASS invalid password"))
	for name, c := range map[string]struct {
		store     failing
		what, why string
	}{
		"silent": {silent, "redis is unreachable", "within"},
		"broken": {func(context.Context) error { return refused }, "redis refused", "error=\"WRONGPASS invalid password\""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var log bytes.Buffer
				s := service(t, "- {key: a, limit: 5/min}\n- {key: b, limit: 5/min}", func(o *rlslimit.Options) {
					o.Store, o.Logger = c.store, slog.New(slog.NewTextHandler(&log, nil))
				})
				for second := range 25 {
					for range 100 {
						assert.Contains(t, ask(t, s, entries(fmt.Sprint("a=", second)), entries("b=x")), "OK: OK 5/5 left")
					}
					time.Sleep(time.Second - time.Duration(time.Now().Nanosecond()))
				}
				lines := strings.Split(strings.TrimSpace(log.String()), "\n")
				assert.Len(t, lines, 3)
				for _, line := range lines {
					assert.Contains(t, line, c.what+"; fail-open of each domain decides")
				}
				assert.Contains(t, lines[0], c.why)
			})
		})
	}
}

// When the store is back, it decides again, and that is logged.
func TestTheStoreIsBack(t *testing.T) {
	t.Parallel()
	store := &gate{Store: startRedis(t).client(t)}
	var log bytes.Buffer
	s := service(t, "- {key: a, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 5}}", func(o *rlslimit.Options) {
		o.Store, o.Timeout, o.Logger = store, 10*time.Second, slog.New(slog.NewTextHandler(&log, nil))
	})
	store.each(func() error { return errors.New("gone") })
	for range 20 {
		assert.Equal(t, "OK: OK 5/5 left", decided(ask(t, s, entries("a=x"))))
	}
	unanswered := func() uint64 { return s.Rules()[0].Undecided }
	assert.EqualValues(t, 20, unanswered())
	comesBack := func() {
		store.each(func() error { return nil })
		require.Eventually(t, func() bool {
			before := unanswered()
			ask(t, s, hits(0, "a=x"))
			return unanswered() == before
		}, time.Minute, 10*time.Millisecond)
	}
	comesBack()
	for range 3 { // outages that are too short to be logged: the end of each is not logged either
		store.each(func() error { return errors.New("gone") })
		for range 20 {
			ask(t, s, hits(0, "a=x"))
		}
		comesBack()
	}
	require.NoError(t, s.Close()) // it waits for the message
	back := strings.Count(log.String(), "redis is reachable again; it decides")
	assert.Positive(t, back)
	assert.LessOrEqual(t, back, strings.Count(log.String(), "redis is unreachable"))
}

// A limit that the store cannot keep is found before anything changes, also if the rule stays.
func TestUpdateIsChecked(t *testing.T) {
	t.Parallel()
	config := func(limit string) rlslimit.Config {
		return parse(t, "domain: d\ndescriptors:\n- {key: a, limit: "+limit+"}\n- {key: b, limit: 5/s}\n")
	}
	s, err := rlslimit.New(rlslimit.Options{Config: config("fixed 5/1000day"), Store: startRedis(t).client(t), Timeout: 10 * time.Second})
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	assert.Contains(t, ask(t, s, entries("a=x")), "OK: OK 4/5 left")
	require.ErrorContains(t, s.Update(config("fixed 5_000_000_000_000_000/1000day")), "f:3:1: redislimit: ")
	assert.Contains(t, ask(t, s, entries("a=x")), "OK: OK 3/5 left")
	require.NoError(t, s.Update(config("fixed 6/1000day")))
	assert.Contains(t, ask(t, s, entries("a=x")), "OK: OK 3/6 left")
}

// Permits that were prefetched for a rule return when the rule goes.
func TestRuleGoes(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	const descriptors = "- {key: a, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 10000}}"
	one, other := redis.shared(t, descriptors), redis.shared(t, descriptors)
	for range 5 { // from the second request on it prefetches
		ask(t, one, entries("a=x"))
	}
	require.NoError(t, one.Update(parse(t, "domain: d\n")))
	require.Eventually(t, func() bool { return decided(ask(t, other, hits(0, "a=x"))) == "OK: OK 9995/10000 left" }, time.Minute, time.Millisecond)
}

// A reset that the store has not confirmed is an error, and a key that no process has asked about is not counted.
func TestResetOnAStore(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	const descriptors = "- {key: a, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 5}}"
	one, other := redis.shared(t, descriptors), redis.shared(t, descriptors)
	ask(t, one, hits(5, "a=x"))
	for value, want := range map[string]int{"x": 1, "new": 0} {
		n, err := other.Reset(t.Context(), "d/a", value)
		require.NoError(t, err)
		assert.Equal(t, want, n, value)
	}
	assert.Equal(t, "OK: OK 0/5 left", decided(ask(t, other, hits(5, "a=x"))))
	require.NoError(t, redis.process.Process.Kill())
	for _, values := range [][]string{{"x"}, {"new"}, nil} {
		n, err := other.Reset(t.Context(), "d/a", values...)
		require.ErrorIs(t, err, redislimit.ErrStore)
		assert.Zero(t, n)
	}
}
