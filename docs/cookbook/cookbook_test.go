package cookbook_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/docs/cookbook"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A call waits for the tokens that it may cost, and pays for those that it has cost. No minute has more than the provider allows.
func TestLLM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		llm, err := cookbook.NewLLM()
		require.NoError(t, err)
		start := time.Now()
		call := func(most, cost int) time.Duration {
			var at time.Duration
			require.NoError(t, llm.Call(t.Context(), most, func(context.Context) (int, error) {
				at = time.Since(start)
				return cost, nil
			}))
			return at
		}
		assert.Equal(t, time.Duration(0), call(8000, 3000))
		assert.Equal(t, time.Duration(0), call(27_000, 27_000), "the rest of the first was refunded")
		assert.Equal(t, 61*time.Second, call(1000, 2000))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, llm.Call(ctx, 30_000, nil), "too late for its deadline")
	})
}

// However calls come, no minute has more than 30,000 tokens and 600 requests, and over ten minutes little is wasted.
func TestLLMInAnyMinute(t *testing.T) {
	type sent struct {
		at   time.Duration
		cost int
	}
	for _, cost := range []int{20, 700, 8000} {
		synctest.Test(t, func(t *testing.T) {
			llm, err := cookbook.NewLLM()
			require.NoError(t, err)
			random := rand.New(rand.NewPCG(1, 2))
			start := time.Now()
			var calls []sent
			for time.Since(start) < 10*time.Minute {
				n := 1 + random.IntN(cost)
				require.NoError(t, llm.Call(t.Context(), cost, func(context.Context) (int, error) {
					calls = append(calls, sent{time.Since(start), n})
					return n, nil
				}))
				time.Sleep(time.Duration(random.IntN(int(20 * time.Millisecond))))
			}
			first, tokens, mostTokens, mostCalls, all := 0, 0, 0, 0, 0
			for i, c := range calls {
				all += c.cost
				tokens += c.cost
				for calls[first].at <= c.at-time.Minute {
					tokens -= calls[first].cost
					first++
				}
				mostTokens, mostCalls = max(mostTokens, tokens), max(mostCalls, i+1-first)
			}
			assert.LessOrEqual(t, mostTokens, 30_000)
			assert.LessOrEqual(t, mostCalls, 600)
			if cost == 20 {
				assert.Greater(t, len(calls), 5700)
			} else {
				assert.Greater(t, all, 220_000)
			}
		})
	}
}

// send returns what a handler answers to a request with header fields.
func send(handler http.Handler, target string, fields ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	for pair := range slices.Chunk(fields, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

// Only failed logins count.
func TestLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login, err := cookbook.Logins(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "wrong" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
		require.NoError(t, err)
		for range 20 {
			require.Equal(t, http.StatusOK, send(login, "/login").Code)
		}
		for range 5 {
			require.Equal(t, http.StatusUnauthorized, send(login, "/login?wrong").Code)
		}
		rejected := send(login, "/login")
		require.Equal(t, http.StatusTooManyRequests, rejected.Code)
		require.Equal(t, "900", rejected.Header().Get("Retry-After"))
		time.Sleep(15 * time.Minute)
		require.Equal(t, http.StatusOK, send(login, "/login").Code)
	})
}

// Each tenant has a quota and a number of requests at a time, and other limits apply immediately.
func TestTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		standard, err := spec.ParseLimits("fixed 10/day tz Europe/Berlin, concurrency 2")
		require.NoError(t, err)
		tenants, err := cookbook.NewTenants(standard)
		require.NoError(t, err)
		handler, err := tenants.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }))
		require.NoError(t, err)
		admin := http.NewServeMux()
		admin.HandleFunc("/tenants/{tenant}", tenants.Admin)
		ask := func(method, tenant, limits string) int {
			w := httptest.NewRecorder()
			admin.ServeHTTP(w, httptest.NewRequest(method, "/tenants/"+tenant, strings.NewReader(limits)))
			return w.Code
		}
		change := func(tenant, limits string) int { return ask(http.MethodPut, tenant, limits) }
		// atOnce sends requests at once and returns how many were served.
		atOnce := func(tenant string, n int) int {
			var wg sync.WaitGroup
			var served atomic.Int64
			for range n {
				wg.Go(func() {
					if send(handler, "/", "X-Tenant", tenant).Code == http.StatusOK {
						served.Add(1)
					}
				})
			}
			wg.Wait()
			return int(served.Load())
		}
		assert.Equal(t, 2, atOnce("ann", 5), "at a time")
		for range 8 {
			assert.Equal(t, 1, atOnce("ann", 1))
		}
		assert.Equal(t, 0, atOnce("ann", 1), "a day")
		assert.Equal(t, 2, atOnce("bob", 5))

		assert.Equal(t, http.StatusNoContent, change("ann", "fixed 13/day tz Europe/Berlin"))
		assert.Equal(t, 3, atOnce("ann", 9), "what was used still counts")
		assert.Equal(t, http.StatusNoContent, change("bob", "blocked"))
		assert.Equal(t, 0, atOnce("bob", 1))
		assert.Equal(t, http.StatusNoContent, change("cyd", "unlimited"), "not seen yet")
		assert.Equal(t, 50, atOnce("cyd", 50))
		assert.Equal(t, http.StatusBadRequest, change("cyd", "10/x"))
		assert.Equal(t, 50, atOnce("cyd", 50))
		assert.Equal(t, http.StatusNoContent, ask(http.MethodDelete, "bob", ""))
		assert.Equal(t, 2, atOnce("bob", 5))
		assert.Equal(t, http.StatusBadRequest, change("bob", ""))

		// A tenant may be blocked without starting anew.
		assert.Equal(t, http.StatusNoContent, change("dan", "fixed 3/day tz Europe/Berlin"))
		assert.Equal(t, 2, atOnce("dan", 2))
		assert.Equal(t, http.StatusNoContent, change("dan", "fixed 3/day tz Europe/Berlin, blocked"))
		assert.Equal(t, 0, atOnce("dan", 5))
		assert.Equal(t, http.StatusNoContent, change("dan", "fixed 3/day tz Europe/Berlin"))
		w := send(handler, "/", "X-Tenant", "dan")
		assert.Equal(t, `"tenant";q=3;w=86400`, w.Header().Get("RateLimit-Policy"), "headers describe the quota")
		assert.Equal(t, 0, atOnce("dan", 5))
	})
}

// Each customer runs one export at a time, and all customers four.
func TestExports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		export, err := cookbook.Exports(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(2 * time.Second)
		}))
		require.NoError(t, err)
		var at sync.WaitGroup
		codes := make(chan int, 10)
		for _, customer := range []string{"a", "a", "b", "c", "d", "e"} {
			at.Go(func() { codes <- send(export, "/", "X-Api-Key", customer).Code })
		}
		time.Sleep(3 * time.Second)
		seen := make(map[int]int)
		for range len(codes) {
			seen[<-codes]++
		}
		assert.Equal(t, map[int]int{200: 4, 429: 1}, seen, "the fifth customer has waited 2 s and still runs")
		at.Wait()
		for range 9 {
			require.Equal(t, http.StatusOK, send(export, "/", "X-Api-Key", "a").Code)
		}
		require.Equal(t, http.StatusTooManyRequests, send(export, "/", "X-Api-Key", "a").Code, "ten an hour")
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Each host is asked once a second, and later if it says so.
func TestCrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		asked := make(map[string][]time.Duration)
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			recorder := httptest.NewRecorder()
			if r.URL.Host == "busy" && len(asked["busy"]) == 0 {
				recorder.Header().Set("Retry-After", "5")
				recorder.WriteHeader(http.StatusTooManyRequests)
			}
			asked[r.URL.Host] = append(asked[r.URL.Host], time.Since(start))
			return recorder.Result(), nil
		})
		pages := []string{"http://one/1", "http://one/2", "http://two/1", "http://busy/1", "http://one/3"}
		visited := 0
		require.NoError(t, cookbook.Crawl(t.Context(), base, pages, func(r *http.Response) error {
			mu.Lock()
			defer mu.Unlock()
			visited++
			assert.Equal(t, http.StatusOK, r.StatusCode)
			return nil
		}))
		assert.Equal(t, len(pages), visited)
		assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, asked["one"])
		assert.Equal(t, []time.Duration{0}, asked["two"])
		require.Len(t, asked["busy"], 2)
		assert.GreaterOrEqual(t, asked["busy"][1], 5*time.Second)
		assert.Less(t, asked["busy"][1], 6*time.Second, "clients that back off do not all return at the same time")

		failed := errors.New("failed")
		require.ErrorIs(t, cookbook.Crawl(t.Context(), base, pages, func(*http.Response) error { return failed }), failed)
	})
}

// All records arrive, and no more than the budget is queued.
func TestFanIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 1000
		queued, most := 0, 0
		var mu sync.Mutex
		source := func(yield func([]byte) bool) {
			for range 20 {
				if !yield(make([]byte, 300)) {
					return
				}
				mu.Lock()
				queued += 300
				most = max(most, queued)
				mu.Unlock()
			}
		}
		sources := []iter.Seq[[]byte]{source, source, source}
		records := 0
		consume := func(record []byte) error {
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			records++
			queued -= len(record)
			return nil
		}
		require.NoError(t, cookbook.FanIn(t.Context(), budget, sources, consume))
		assert.Equal(t, 60, records)
		assert.LessOrEqual(t, most, budget+300, "and what the consumer has in hand")

		failed := errors.New("failed")
		require.ErrorIs(t, cookbook.FanIn(t.Context(), budget, sources, func([]byte) error { return failed }), failed)

		// A canceled context stops the sources, and loses nothing that was read from them.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		read := 0
		slow := func(yield func([]byte) bool) {
			for more := true; more; {
				read++
				more = yield(make([]byte, 300))
			}
		}
		records = 0
		require.ErrorIs(t, cookbook.FanIn(ctx, budget, []iter.Seq[[]byte]{slow}, consume), context.DeadlineExceeded)
		require.Equal(t, read, records)
	})
}

// An upload is as fast as its bandwidth.
func TestUploads(t *testing.T) {
	var got int
	var length int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		got, length = len(body), r.ContentLength
	}))
	defer server.Close()
	bandwidth := core.Must(core.NewTokenBucket(ioreader.PerSecond(1 << 20)))
	client, err := cookbook.Uploads(bandwidth)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL, strings.NewReader(strings.Repeat("x", 100<<10)))
	require.NoError(t, err)
	start := time.Now()
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, 100<<10, got)
	assert.Equal(t, int64(100<<10), length, "the body is not chunked")
	assert.GreaterOrEqual(t, time.Since(start), 80*time.Millisecond, "the bucket holds the bytes of 10 ms")
}

// A user's downloads share a MiB a second.
func TestDownloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, err := cookbook.Downloads(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 1<<20))
		}))
		require.NoError(t, err)
		start := time.Now()
		var mu sync.Mutex
		done := make(map[string]time.Duration)
		var users sync.WaitGroup
		for _, user := range []string{"ann", "ann", "bob"} {
			users.Go(func() {
				send(files, "/", "X-User", user)
				mu.Lock()
				defer mu.Unlock()
				done[user] = time.Since(start).Round(10 * time.Millisecond)
			})
		}
		users.Wait()
		assert.Equal(t, map[string]time.Duration{
			"ann": 1990 * time.Millisecond, "bob": 990 * time.Millisecond, // the bucket starts with the bytes of 10 ms
		}, done)
	})
}

// While the database answers too late, fewer messages are stored at a time.
func TestConsume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := adaptive.New(adaptive.Options{Max: 100, QueueLimit: 1, Algorithm: adaptive.AIMD{}})
		require.NoError(t, err)
		before := limiter.Statistics().Limit
		left := 200
		next := func(context.Context) (string, error) {
			left--
			if left < 0 {
				return "", io.EOF
			}
			return "message", nil
		}
		var mu sync.Mutex
		stored := 0
		store := func(ctx context.Context, _ string) error {
			mu.Lock()
			stored++
			mu.Unlock()
			<-ctx.Done()
			return ctx.Err()
		}
		require.ErrorIs(t, cookbook.Consume(t.Context(), limiter, next, store), io.EOF)
		assert.Equal(t, 200, stored)
		assert.Less(t, limiter.Statistics().Limit, before)
	})
}

// What cannot be served within a second is answered with 503.
func TestGraceful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := cookbook.Graceful(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(3 * time.Second)
		}))
		require.NoError(t, err)
		var mu sync.Mutex
		codes := make(map[int]map[time.Duration]int)
		var clients sync.WaitGroup
		start := time.Now()
		for range 300 {
			clients.Go(func() {
				code := send(server, "/").Code
				mu.Lock()
				defer mu.Unlock()
				if codes[code] == nil {
					codes[code] = make(map[time.Duration]int)
				}
				codes[code][time.Since(start)]++
			})
		}
		clients.Wait()
		assert.Equal(t, map[int]map[time.Duration]int{
			http.StatusOK:                 {3 * time.Second: 20},
			http.StatusServiceUnavailable: {0: 80, time.Second: 200},
		}, codes)
		assert.Equal(t, http.StatusOK, send(server, "/healthz").Code)
	})
}

// Two processes share a quota; without Redis each has a part of it.
func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true) // its clock is the bubble's
		var away atomic.Bool
		client := redis.NewClient(&redis.Options{
			Addr:          "memory",
			DialerRetries: 1,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				if away.Load() {
					return nil, errors.New("connection refused")
				}
				return server.Dial()
			},
			// For these a new connection waits until a server that does not know them has answered.
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		defer func() { _ = client.Close() }()
		here, err := cookbook.Quota(client, "acme")
		require.NoError(t, err)
		defer func() { _ = here.Close() }()
		there, err := cookbook.Quota(client, "acme")
		require.NoError(t, err)
		defer func() { _ = there.Close() }()
		require.True(t, here.TryAcquire(9000).Acquired())
		require.False(t, there.TryAcquire(1001).Acquired())
		require.True(t, there.TryAcquire(1000).Acquired())

		away.Store(true)
		server.Close()
		others, err := cookbook.Quota(client, "other")
		require.NoError(t, err)
		defer func() { _ = others.Close() }()
		require.True(t, others.TryAcquire(500).Acquired())
		require.False(t, others.TryAcquire(1).Acquired())
		time.Sleep(time.Minute) // for the client to stop dialling
	})
}

// A download that is open follows the limit: none, 1,000 bytes a second, paused, and none again.
func TestBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bandwidth := cookbook.NewBandwidth()
		require.Error(t, bandwidth.Limit(0))
		server, client := net.Pipe()
		defer func() { _ = client.Close() }()
		connections := make(accepted, 1)
		connections <- server
		listener, err := bandwidth.Listener(connections)
		require.NoError(t, err)
		connection, err := listener.Accept()
		require.NoError(t, err)
		defer func() { _ = connection.Close() }()

		var received atomic.Int64
		go func() {
			buffer := make([]byte, 1000)
			for {
				n, err := client.Read(buffer)
				received.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
		start := time.Now()
		sent := make(chan time.Duration, 1)
		send := func(n int) {
			_, err := connection.Write(make([]byte, n))
			assert.NoError(t, err)
			sent <- time.Since(start)
		}
		send(1 << 20)
		require.Equal(t, time.Duration(0), <-sent, "no limit")
		require.NoError(t, bandwidth.Limit(1000))
		synctest.Wait()
		received.Store(0)
		go send(100_000)
		time.Sleep(10 * time.Second)
		require.InDelta(t, 10_000+1460, received.Load(), 1460, "10 s at the limit")
		bandwidth.Pause()
		synctest.Wait()
		paused := received.Load()
		time.Sleep(time.Hour)
		require.Equal(t, paused, received.Load())
		bandwidth.Off()
		require.Equal(t, 10*time.Second+time.Hour, <-sent)
		synctest.Wait()
		require.Equal(t, int64(100_000), received.Load())
	})
}

// accepted is a listener of connections that exist.
type accepted chan net.Conn

func (a accepted) Accept() (net.Conn, error) { return <-a, nil }
func (a accepted) Close() error              { return nil }
func (a accepted) Addr() net.Addr            { return &net.TCPAddr{} }

// Calls start a second apart. A canceled one does not run, and a call scheduled afterwards takes its place.
func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer, err := cookbook.NewPacer(time.Second, 3)
		require.NoError(t, err)
		start := time.Now()
		var mu sync.Mutex
		started := make(map[string]time.Duration)
		after := func(name string, want time.Duration) (cancel func()) {
			t.Helper()
			delay, cancel, err := pacer.After(func() {
				mu.Lock()
				defer mu.Unlock()
				started[name] = time.Since(start)
			})
			require.NoError(t, err)
			require.Equal(t, want, delay, name)
			return cancel
		}
		after("first", 0)
		after("second", time.Second)
		after("third", 2*time.Second)
		cancel := after("canceled", 3*time.Second)
		_, _, err = pacer.After(func() {})
		var rejected *core.RejectedError
		require.ErrorAs(t, err, &rejected, "three are scheduled ahead")
		cancel()
		cancel()
		done := after("fourth", 3*time.Second)
		time.Sleep(time.Minute)
		done() // changes nothing
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, map[string]time.Duration{
			"first": 0, "second": time.Second, "third": 2 * time.Second, "fourth": 3 * time.Second,
		}, started)
	})
}
