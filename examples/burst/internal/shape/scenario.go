package shape

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// scenario is a limiter with what a request does under it.
type scenario struct {
	name  string
	terms string
	limiter
	task time.Duration // how long a granted request holds its lease
}

// limiter is what all limiters of core are.
type limiter interface {
	core.Limiter
	core.Reporter
	Close() error
}

const (
	perSecond = 5  // requests that each limiter admits, on average
	waiting   = 20 // requests that may wait
)

// scenarios returns the four limiters, for a burst at start; second is how long a second is.
func scenarios(start time.Time, second time.Duration) ([]scenario, error) {
	// The burst comes half-way through the fixed window's first window.
	held, err1 := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: "concurrency", PermitLimit: perSecond, QueueLimit: waiting,
	})
	bucket, err2 := core.NewTokenBucket(core.TokenBucketOptions{
		Name: "bucket", TokenLimit: perSecond, TokensPerPeriod: 1, ReplenishmentPeriod: second / perSecond, QueueLimit: waiting,
	})
	fixed, err3 := core.NewFixedWindow(core.FixedWindowOptions{
		Name: "fixed", PermitLimit: 2 * perSecond, Window: 2 * second, Anchor: start.Add(second), QueueLimit: waiting,
	})
	sliding, err4 := core.NewSlidingWindow(core.SlidingWindowOptions{
		Name: "sliding", PermitLimit: 2 * perSecond, Window: 2 * second, SegmentsPerWindow: 4, Anchor: start, QueueLimit: waiting,
	})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	return []scenario{
		{"Concurrency limiter", fmt.Sprintf("%d at once, each for a second", perSecond), held, second},
		{"Token bucket", fmt.Sprintf("holds %d tokens, gets %d each second one by one", perSecond, perSecond), bucket, 0},
		{"Fixed window", fmt.Sprintf("%d in each window of 2 seconds, the first half over", 2*perSecond), fixed, 0},
		{"Sliding window", fmt.Sprintf("%d in any 2 seconds, in 4 segments", 2*perSecond), sliding, 0},
	}, nil
}
