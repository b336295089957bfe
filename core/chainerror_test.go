package core_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// blocking are chains of which nobody gets a permit.
func blocking(t *testing.T) map[string]*core.ChainedLimiter {
	t.Helper()
	full := func() core.Limiter {
		l := concurrency(t, 1, 1000)
		takes(t, l, 1)
		return l
	}
	free := func() core.Limiter {
		return bucket(t, core.TokenBucketOptions{TokenLimit: 1 << 30, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
	}
	late := bucket(t, core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 1000, ManualReplenishment: true})
	takes(t, late, 1)
	return map[string]*core.ChainedLimiter{
		"one":    chain(t, full()),
		"second": chain(t, free(), full()),
		"manual": chain(t, late),
		"nested": chain(t, free(), chain(t, free(), chain(t, full()))),
		"view":   chain(t, core.WithReason(full(), "full")),
		"user's": chain(t, free(), bareLimiter{full()}),
	}
}

// What ends a wait is returned as it is: context.DeadlineExceeded for a deadline, always, and the
// own error of a context that has one.
func TestStressErrorsOfAChain(t *testing.T) {
	own := errors.New("own")
	for name, c := range blocking(t) {
		t.Run(name, func(t *testing.T) {
			var group sync.WaitGroup
			for w := range 6 {
				group.Go(func() {
					random := rand.New(rand.NewPCG(uint64(w), 21))
					for range testkit.Rounds(400) {
						want := context.DeadlineExceeded
						var ctx context.Context
						var cancel context.CancelFunc
						switch random.IntN(3) {
						case 0:
							ctx, cancel = context.WithTimeout(t.Context(), time.Duration(random.IntN(100))*time.Microsecond)
						case 1:
							want = context.Canceled
							ctx, cancel = context.WithCancel(t.Context())
							go cancel()
						default:
							want = own
							mine := testkit.NewContext()
							ctx, cancel = mine, func() {}
							go mine.End(own)
						}
						lease, err := c.Acquire(ctx, 1)
						if err != want || lease.Err() != want { //nolint:errorlint // that very error
							t.Errorf("%v, want %v", err, want)
						}
						cancel()
					}
				})
			}
			group.Wait()
			require.Zero(t, c.Statistics().Queued)
		})
	}
}

// The chain is closed while callers' contexts end: each gets one or the other, and what
// the caller's own error is comes unchanged.
func TestStressCloseOfAChain(t *testing.T) {
	for range 10 {
		for name, c := range blocking(t) {
			t.Run(name, func(t *testing.T) {
				var group sync.WaitGroup
				for range 8 {
					group.Go(func() {
						for {
							ctx, cancel := context.WithTimeout(t.Context(), 300*time.Microsecond)
							_, err := c.Acquire(ctx, 1)
							cancel()
							if err == core.ErrClosed { //nolint:errorlint // that very error
								return
							}
							if err != context.DeadlineExceeded { //nolint:errorlint // that very error
								t.Error(err)
								return
							}
						}
					})
				}
				time.Sleep(500 * time.Microsecond)
				require.NoError(t, c.Close())
				group.Wait()
			})
		}
	}
}
