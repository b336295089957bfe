package redislimit_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

// A limit that is read from text is shared by processes.
func ExampleShare() {
	client, stop := start()
	defer stop()
	limit := core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 2, Window: time.Hour}))
	options := redislimit.StoreOptions{Store: goredis.New(client), Key: "emails", Timeout: time.Second}
	here := core.Must(redislimit.Share(limit, options))
	defer here.Close()
	there := core.Must(redislimit.Share(limit, options))
	defer there.Close()

	fmt.Println(here.TryAcquire(1).Acquired(), there.TryAcquire(1).Acquired(), here.TryAcquire(1).Acquired())
	fmt.Println(limit.Available(), "left of the original")
	// Output:
	// true true false
	// 2 left of the original
}

// Share and UpdateFrom take the options of each kind of limiter, and name those that they cannot use.
func TestShare(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		sources := func(limit int) []core.Limiter {
			return []core.Limiter{
				core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})),
				core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: limit, Window: time.Hour})),
				core.Must(core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: limit, Window: time.Hour, SegmentsPerWindow: 2})),
				core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: limit})),
			}
		}
		large := sources(5)
		for i, source := range sources(3) {
			l, err := redislimit.Share(source, s.shared(strconv.Itoa(i)))
			require.NoError(t, err)
			t.Cleanup(func() { l.Close() })
			one := takes(t, l, 1)
			refuses(t, l, 3)
			require.NoError(t, l.UpdateFrom(large[i]))
			two := takes(t, l, 2)
			require.Equal(t, 5, l.Statistics().Limit)
			one.Release()
			two.Release()
			require.ErrorContains(t, l.UpdateFrom(large[(i+1)%len(large)]), "redislimit: cannot update a *redislimit.")
		}
		_, err := redislimit.Share(core.Must(core.Chain(sources(1)...)), s.shared("chain"))
		require.ErrorContains(t, err, "want a limiter of package core")
		l, err := redislimit.Share(large[0], redislimit.StoreOptions{})
		require.ErrorContains(t, err, "Store")
		require.Nil(t, l)
	})
}
