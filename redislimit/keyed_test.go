package redislimit_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// A limit per customer, which depends on the customer's plan.
func ExampleKeyed() {
	store, stop := start()
	defer stop()
	customers := core.Must(redislimit.NewKeyed(redislimit.KeyedOptions{
		Options: redislimit.Options{Store: store, Key: "customers", Timeout: time.Second},
	}))
	defer customers.Close()

	free, paid := core.PerSecond(1, 1), core.PerSecond(10, 3)
	for _, customer := range []string{"ann", "ann", "bob", "bob"} {
		plan := free
		if customer == "bob" {
			plan = paid
		}
		fmt.Println(customer, customers.TryAcquire(customer, plan, 1).Acquired())
	}
	// Output:
	// ann true
	// ann false
	// bob true
	// bob true
}

// Each key has a limit of its own, which holds although few keys are remembered, and which requests may change.
func TestKeyed(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o, states := s.shared("plans"), 0
		stop := redislimit.Watch(o.Store, func(bool, error) { states++ })
		defer stop()
		k, err := redislimit.NewKeyed(redislimit.KeyedOptions{Options: o, MaxKeys: 3})
		require.NoError(t, err)
		limit := core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Minute}
		keys := []string{"", "a", "{a}", "%7Ba%7D", "a}", strings.Repeat("long", 100), strings.Repeat("long", 101), "b/c"}
		for range 2 {
			for _, key := range keys {
				require.NoError(t, k.TryAcquire(key, limit, 1).Err(), key)
			}
			require.LessOrEqual(t, k.Len(), 3)
		}
		for _, key := range keys {
			require.ErrorIs(t, k.TryAcquire(key, limit, 1).Err(), core.ErrRejected, key)
		}

		lease := k.TryAcquire("refunded", limit, 2)
		require.NoError(t, lease.Err())
		lease.Refund()
		lease, err = k.Acquire(t.Context(), "refunded", limit, 2)
		require.NoError(t, err)
		lease.Settle(1)
		require.NoError(t, k.TryAcquire("refunded", limit, 1).Err())

		other := limit
		other.QueueLimit = 1
		start := time.Now()
		_, err = k.Acquire(t.Context(), "refunded", other, 1)
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(start))

		require.Error(t, k.TryAcquire("bad", core.TokenBucketOptions{}, 1).Err())
		s.store.answer(gone)
		for i := range 6 {
			require.ErrorIs(t, k.TryAcquire(strconv.Itoa(i), limit, 1).Err(), redislimit.ErrStore)
		}
		synctest.Wait()
		require.Equal(t, 1, states, "once for all keys")
		require.NoError(t, k.Close())
		require.ErrorIs(t, k.TryAcquire("a", limit, 1).Err(), core.ErrClosed)
		require.ErrorIs(t, new(redislimit.Keyed).TryAcquire("a", limit, 1).Err(), core.ErrClosed)
		_, err = redislimit.NewKeyed(redislimit.KeyedOptions{MaxKeys: -1})
		require.ErrorContains(t, err, "redislimit: Options.Store = nil, want a store")
		require.ErrorContains(t, err, "redislimit: KeyedOptions.MaxKeys = -1, want at least 0")
	})
}

// A key whose limit changes while the store is silent does not make the others wait.
func TestKeyedWhileALimitChanges(t *testing.T) {
	s := serve(t)
	o := s.shared("plans")
	o.Timeout = time.Minute
	k := core.Must(redislimit.NewKeyed(redislimit.KeyedOptions{Options: o}))
	defer k.Close()
	require.NoError(t, k.TryAcquire("a", core.PerSecond(1, 1), 1).Err())
	require.NoError(t, k.TryAcquire("b", core.Every(time.Hour, 1), 1).Err())
	require.ErrorIs(t, k.TryAcquire("b", core.Every(time.Hour, 1), 1).Err(), core.ErrRejected)

	called, silent := make(chan struct{}, 10), make(chan struct{})
	defer close(silent)
	s.store.answer(func(_ context.Context, next func() ([]int64, error)) ([]int64, error) {
		called <- struct{}{}
		<-silent
		return next()
	})
	go k.TryAcquire("a", core.PerSecond(2, 2), 1)
	<-called
	rejected := make(chan error, 1)
	go func() { rejected <- k.TryAcquire("b", core.Every(time.Hour, 1), 1).Err() }()
	select {
	case err := <-rejected: // remembered
		require.ErrorIs(t, err, core.ErrRejected)
	case <-time.After(10 * time.Second):
		t.Error("it waits for the other key")
	}
}
