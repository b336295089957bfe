package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/spec"
	"github.com/sluice-go/sluice/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const pageFile = "docs/choose.md"

// Each limiter of the page is the same limit, made from its text and by its constructor.
func TestChoose(t *testing.T) {
	page := read(t, pageFile)
	for _, l := range leaves {
		t.Run(l.name, func(t *testing.T) {
			require.Contains(t, page, "```spec\n"+l.spec+"\n```\n")
			limit, err := spec.Parse(l.spec)
			require.NoError(t, err)
			text, err := limit.New("")
			require.NoError(t, err)
			built, err := l.build()
			require.NoError(t, err)
			require.Equal(t, options(built, l.waits), options(text, l.waits))
		})
	}
}

// options returns the options of a limiter, without the length of its queue unless calls wait.
func options(l core.Limiter, waits bool) any {
	switch l := l.(type) {
	case *core.TokenBucket:
		o := l.Options()
		if !waits {
			o.QueueLimit = 0
		}
		return o
	case *core.FixedWindow:
		return l.Options()
	case *core.SlidingWindow:
		return l.Options()
	case *core.ConcurrencyLimiter:
		return l.Options()
	}
	return nil
}

// The policies of the page reject the customer that sends too much, and then the excess for
// all of them.
func TestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := core.Must(core.NewTokenBucket(core.PerSecond(25, 25)))
		adapts, err := unknown()
		require.NoError(t, err)
		all, err := both(rate, adapts)
		require.NoError(t, err)
		customers, err := perCustomer()
		require.NoError(t, err)
		limits, err := policies(all, customers)
		require.NoError(t, err)
		handler := limits.Handler(limits.Policy("api")(http.NotFoundHandler()))
		codes := make(map[int]int)
		for _, customer := range []string{"ann", "bob", "cid"} {
			for range 11 {
				request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
				request.Header.Set("X-Api-Key", customer)
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, request)
				codes[recorder.Code]++
			}
		}
		// What the API rejects takes nothing from the limit of all.
		assert.Equal(t, map[int]int{http.StatusNotFound: 25, http.StatusTooManyRequests: 2, http.StatusServiceUnavailable: 6}, codes)
	})
}

// A plan that changes applies from the next request on.
func TestPerPlan(t *testing.T) {
	plan := "fixed 3/h"
	customers, err := perPlan(func(string) spec.Limits { return core.Must(spec.ParseLimits(plan)) })
	require.NoError(t, err)
	request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	request.Header.Set("X-Api-Key", "ann")
	require.True(t, customers.TryAcquire(request, 3).Acquired())
	plan = "fixed 5/h, concurrency 1"
	require.NoError(t, customers.Refresh("ann"))
	require.True(t, customers.TryAcquire(request, 1).Acquired())
	require.False(t, customers.TryAcquire(request, 1).Acquired())
}

// The budget of the page is back on the 15th.
func TestMonthly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := monthly(time.FixedZone("UTC+2", 2*60*60))
		require.NoError(t, err)
		require.True(t, l.TryAcquire(100_000).Acquired())
		retry, ok := core.RetryAfter.From(l.TryAcquire(1))
		require.True(t, ok)
		assert.Equal(t, 14*24*time.Hour-2*time.Hour, retry) // a bubble starts on 1 January, at midnight UTC
	})
}

// The table of the page states how many permits each limit grants in the first second.
func TestFirstSecond(t *testing.T) {
	page := read(t, pageFile)
	for _, row := range []struct {
		spec    string
		options core.TokenBucketOptions
		granted int
	}{
		{"10/s", core.PerSecond(10, 10), 19},
		{"10/s burst 1", core.PerSecond(10, 1), 10},
		{"10/s burst 1", core.Every(100*time.Millisecond, 1), 10},
		{"sliding 10/1s", core.TokenBucketOptions{}, 10},
		{"10B/s", ioreader.PerSecond(10), 1469},
	} {
		require.Regexp(t, fmt.Sprintf("(?m)^\\| %#q .* \\| %d \\|$", row.spec, row.granted), page)
		limit, err := spec.Parse(row.spec)
		require.NoError(t, err)
		builders := []func() (core.Limiter, error){func() (core.Limiter, error) { return limit.New("") }}
		if row.options.TokenLimit > 0 {
			builders = append(builders, func() (core.Limiter, error) { return core.NewTokenBucket(row.options) })
		}
		for _, build := range builders {
			synctest.Test(t, func(t *testing.T) {
				limiter, err := build()
				require.NoError(t, err)
				granted := 0
				for start := time.Now(); time.Since(start) < time.Second; time.Sleep(time.Millisecond) {
					for limiter.TryAcquire(1).Acquired() {
						granted++
					}
				}
				assert.Equal(t, row.granted, granted, row.spec)
			})
		}
	}
}

// Eight tasks run at a time, as after errgroup's SetLimit(8).
func TestEight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, err := eight()
		require.NoError(t, err)
		group := pool.Group(t.Context())
		var running, most atomic.Int64
		for range 20 {
			group.Go(func(context.Context) error {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Second)
				running.Add(-1)
				return nil
			})
		}
		require.NoError(t, group.Wait())
		assert.EqualValues(t, 8, most.Load())
	})
}

// Each user's uploads share the user's bandwidth and not that of other users.
func TestUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, err := uploads(func(r *http.Request) string { return r.Header.Get("User") })
		require.NoError(t, err)
		handler := limits.Policy("uploads")(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			assert.NoError(t, err)
		}))
		took := func(user string) time.Duration {
			start := time.Now()
			request := httptest.NewRequest(http.MethodPut, "/", bytes.NewReader(make([]byte, 2<<20)))
			request.Header.Set("User", user)
			handler.ServeHTTP(httptest.NewRecorder(), request)
			return time.Since(start).Round(100 * time.Millisecond)
		}
		var all sync.WaitGroup
		var ann, again, bob time.Duration
		all.Go(func() { ann = took("ann") })
		all.Go(func() { again = took("ann") })
		all.Go(func() { bob = took("bob") })
		all.Wait()
		assert.Equal(t, 4*time.Second, max(ann, again))
		assert.Equal(t, 2*time.Second, bob)
	})
}

// At most 8 heavy tasks run at a time, or 100 light ones, and both where there is room for both.
func TestWeighted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		task := func(context.Context) error {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			return nil
		}
		for _, c := range []struct {
			heavy, light int
			most         int64
			took         time.Duration
		}{{8, 100, 100, 2 * time.Second}, {16, 0, 8, 2 * time.Second}, {4, 50, 54, time.Second}} {
			most.Store(0)
			start := time.Now()
			require.NoError(t, weighted(t.Context(), slices.Repeat([]worker.Task{task}, c.heavy), slices.Repeat([]worker.Task{task}, c.light)))
			assert.Equal(t, c.most, most.Load())
			assert.Equal(t, c.took, time.Since(start))
		}
	})
}
