package core_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// A chain that finds too low a limit, and is granted the permits as it was raised just then,
// gives them back.
func TestAChainKeepsNothingOfALimitThatIsRaised(t *testing.T) {
	l := concurrency(t, 10, 0)
	c := chain(t, concurrency(t, 10, 0), l)
	limit := func(n int) { require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: n})) }
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			limit(1)
			limit(10)
		}
	})
	for range 100_000 {
		c.TryAcquire(5).Release()
	}
	done.Store(true)
	wg.Wait()
	available(t, c, 10)
}

// A lease of a chain may be settled more often than a ticket has generations.
func TestALeaseOfAChainIsSettledOften(t *testing.T) {
	l := concurrency(t, 10, 0)
	c := chain(t, l)
	lease := takes(t, c, 1)
	for i := range 1<<20 + 2 {
		lease = c.Settle(lease, 2-i%2)
	}
	lease.Release()
	available(t, l, 10)
}

// errPanics is a context whose Err panics at one of its calls.
type errPanics struct {
	context.Context
	left int // calls until then
}

func (c *errPanics) Err() error {
	c.left--
	if c.left == 0 {
		panic("Err")
	}
	return c.Context.Err()
}

// A chain gives everything back if the Err of the context panics, whichever call does.
func TestAChainKeepsNothingIfErrPanics(t *testing.T) {
	inner := concurrency(t, 3, 3)
	for name, middle := range map[string]core.Limiter{
		"core's":     inner,
		"a user's":   &stranger{Limiter: inner},
		"a view":     core.WithReason(&stranger{Limiter: inner}, "full"),
		"in a chain": chain(t, &stranger{Limiter: inner}),
	} {
		for _, waits := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					first, last := concurrency(t, 3, 0), concurrency(t, 3, 0)
					c := chain(t, first, middle, last)
					for call := 1; ; call++ {
						if waits {
							held := takes(t, inner, 3)
							time.AfterFunc(time.Second, held.Release)
						}
						ctx := &errPanics{t.Context(), call}
						panicked := func() (panicked bool) {
							defer func() { panicked = recover() != nil }()
							lease, err := c.Acquire(ctx, 2)
							require.NoError(t, err)
							lease.Release()
							return false
						}()
						time.Sleep(2 * time.Second)
						synctest.Wait()
						for _, l := range []core.Limiter{first, inner, last} {
							available(t, l, 3)
						}
						if !panicked {
							require.Greater(t, call, 1)
							return
						}
					}
				})
			})
		}
	}
}

// claims says that it has granted quietly, and has not.
type claims struct{ core.Limiter }

func (claims) TryQuietly(int) (core.Lease, bool) { return core.Lease{}, true }

// A quiet try whose lease is not acquired is none.
func TestAQuietTryThatClaimsToHaveGranted(t *testing.T) {
	l := concurrency(t, 2, 0)
	lying := claims{l}
	_, ok := core.TryQuietly(lying, 1)
	require.False(t, ok)
	c := chain(t, concurrency(t, 5, 0), lying)
	_, ok = c.TryQuietly(1)
	require.False(t, ok)
	lease, err := c.Acquire(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, 2, lease.Permits())
	available(t, l, 0)
	_, err = c.Acquire(t.Context(), 1)
	rejection(t, err, "queue limit reached", 0)
	lease.Release()
	available(t, c, 2)
}
