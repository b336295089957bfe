// Package partitions compares maps of limiters: what a key costs that is there, one that is
// new, and an idle one.
package partitions

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

func TestMain(m *testing.M) {
	sidebyside.RunByDefault()
	goleak.VerifyTestMain(m)
}

// All let so many permits a second through that no caller can use them up.
const (
	perSecond = 1_000_000_000
	burst     = 1_000_000
)

func bucket() *core.TokenBucket {
	l, err := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: burst, TokensPerPeriod: perSecond / 1000, ReplenishmentPeriod: time.Millisecond,
	})
	if err != nil {
		panic(err)
	}
	return l
}

func names(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "client-" + strconv.Itoa(i)
	}
	return keys
}

// newKeyed returns ours. most is how many keys may be there; 0: as many as by default.
func newKeyed(b *testing.B, most int, make1 func(string) (core.Limiter, error)) *partition.Keyed[string, string] {
	b.Helper()
	k, err := partition.New(partition.Options[string, string]{
		Key:           func(key string) string { return key },
		New:           make1,
		MaxPartitions: most,
		IdleTimeout:   time.Hour, // no live key is evicted, however slow the rivals are
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = k.Close() })
	return k
}

// mutexMap is what everybody writes.
type mutexMap struct {
	mu sync.RWMutex
	m  map[string]*rate.Limiter
}

func (m *mutexMap) limiter(key string) *rate.Limiter {
	m.mu.RLock()
	l := m.m[key]
	m.mu.RUnlock()
	if l != nil {
		return l
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l = m.m[key]; l == nil {
		l = rate.NewLimiter(perSecond, burst)
		m.m[key] = l
	}
	return l
}

// way is one implementation: take asks for a permit of a key and reports whether it got it.
type way struct {
	name string
	take func(key string) bool
}

// ways returns the implementations, without keys.
func ways(b *testing.B) []way {
	b.Helper()
	ctx := b.Context()
	ours := newKeyed(b, 0, func(string) (core.Limiter, error) { return bucket(), nil })
	var syncMap sync.Map
	locked := &mutexMap{m: make(map[string]*rate.Limiter)}
	return []way{
		{"sluice", func(key string) bool { return ours.TryAcquire(key, 1).Acquired() }},
		{"sync.Map+core", func(key string) bool {
			l, ok := syncMap.Load(key)
			if !ok {
				l, _ = syncMap.LoadOrStore(key, bucket())
			}
			return l.(*core.TokenBucket).TryAcquire(1).Acquired()
		}},
		{"map+RWMutex+xtime-rate", func(key string) bool { return locked.limiter(key).Allow() }},
		{"sethvargo", store(b, ctx)},
		{"throttled", gcra(b, ctx)},
	}
}

func store(b *testing.B, ctx context.Context) func(string) bool {
	b.Helper()
	var s limiter.Store
	// With so many tokens it gives hardly any back at the end of an interval: there is none.
	s, err := memorystore.New(&memorystore.Config{Tokens: 1 << 40, Interval: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(ctx) })
	return func(key string) bool {
		_, _, _, ok, err := s.Take(ctx, key)
		return ok && err == nil
	}
}

func gcra(b *testing.B, ctx context.Context) func(string) bool {
	b.Helper()
	s, err := memstore.NewCtx(0) // without a bound, as the others; a bound makes it an LRU under a mutex
	if err != nil {
		b.Fatal(err)
	}
	l, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{
		// A second's worth: it refuses whoever is kept from its processor, between its reading of
		// the clock and its swap, for longer than the burst lasts.
		MaxRate: throttled.PerDuration(perSecond, time.Second), MaxBurst: perSecond,
	})
	if err != nil {
		b.Fatal(err)
	}
	return func(key string) bool {
		// It gives up after some lost races of callers, with an error; that counts as done.
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return !limited || err != nil
	}
}
