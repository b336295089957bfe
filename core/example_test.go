package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/sluice-go/sluice/core"
)

func Example() {
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 2})
	if err != nil {
		panic(err)
	}
	for i := range 3 {
		if lease := limiter.TryAcquire(1); lease.Acquired() {
			fmt.Println(i, "works") // and releases the lease when it is done
		} else {
			fmt.Println(i, lease.Err())
		}
	}
	// Output:
	// 0 works
	// 1 works
	// 2 core: rejected: permits exhausted
}

func ExampleNewConcurrencyLimiter() {
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
	if err != nil {
		panic(err)
	}
	first, _ := limiter.Acquire(context.Background(), 1)
	go first.Release()
	second, err := limiter.Acquire(context.Background(), 1) // waits for the first
	fmt.Println(second.Permits(), err)
	second.Release()
	// Output: 1 <nil>
}

func ExampleNewTokenBucket() {
	limiter, err := core.NewTokenBucket(core.TokenBucketOptions{
		Name: "mail", TokenLimit: 3, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(limiter.TryAcquire(3).Acquired())
	retry, _ := core.RetryAfter.From(limiter.TryAcquire(2))
	fmt.Println(retry.Round(time.Minute))
	// Output:
	// true
	// 2h0m0s
}

func ExampleNewFixedWindow() {
	// A hundred a day, from midnight to midnight UTC.
	limiter, err := core.NewFixedWindow(core.FixedWindowOptions{
		PermitLimit: 100, Window: 24 * time.Hour, Anchor: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		panic(err)
	}
	lease := limiter.TryAcquire(30)
	left, _ := core.Remaining.From(lease)
	fmt.Println(left)
	// Output: 70
}

func ExampleNewSlidingWindow() {
	limiter, err := core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: 10, Window: time.Minute, SegmentsPerWindow: 6})
	if err != nil {
		panic(err)
	}
	fmt.Println(limiter.TryAcquire(10).Acquired(), limiter.TryAcquire(1).Acquired(), limiter.ReplenishmentPeriod())
	// Output: true false 10s
}

func ExampleNewSlidingWindow_faults() {
	_, err := core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: -1, Window: time.Second, QueueLimit: -2})
	fmt.Println(err)
	// Output:
	// core: SlidingWindowOptions.PermitLimit = -1, want at least 1
	// core: SlidingWindowOptions.SegmentsPerWindow = 0, want between 1 and 1000000000, the window's nanoseconds
	// core: SlidingWindowOptions.QueueLimit = -2, want at least 0
}

func ExampleConcurrencyLimiter_Update() {
	limiter, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 4})
	limiter.TryAcquire(3)
	if err := limiter.Update(core.ConcurrencyLimiterOptions{PermitLimit: 10}); err != nil {
		panic(err)
	}
	fmt.Println(limiter.Available())
	// Output: 7
}

func ExampleTokenBucket_Refund() {
	limiter, _ := core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
	lease := limiter.TryAcquire(5)
	limiter.Refund(lease) // the work was not done
	limiter.Refund(lease)
	fmt.Println(limiter.Available())
	// Output: 5
}

func ExampleTokenBucket_TryReplenish() {
	limiter, _ := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: 5, TokensPerPeriod: 5, ReplenishmentPeriod: 1, ManualReplenishment: true,
	})
	limiter.TryAcquire(5)
	time.Sleep(time.Millisecond)
	fmt.Println(limiter.Available())
	fmt.Println(limiter.TryReplenish(), limiter.Available())
	// Output:
	// 0
	// true 5
}

func ExampleChain() {
	slots, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "slots", PermitLimit: 5})
	rate, _ := core.NewTokenBucket(core.TokenBucketOptions{Name: "rate", TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
	both, err := core.Chain(slots, rate)
	if err != nil {
		panic(err)
	}
	lease := both.TryAcquire(2)
	refused := both.TryAcquire(1)
	who, _ := core.LimiterName.From(refused)
	fmt.Println(lease.Acquired(), refused.Acquired(), who, slots.Available())
	lease.Release()
	fmt.Println(slots.Available(), rate.Available())
	// Output:
	// true false rate 3
	// 5 0
}

func ExampleWithReason() {
	slots, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1})
	limiter := core.WithReason(slots, "one export at a time")
	limiter.TryAcquire(1)
	fmt.Println(limiter.TryAcquire(1).Err())
	// Output: core: rejected: one export at a time
}

func ExampleUnlimited() {
	lease, err := core.Unlimited().Acquire(context.Background(), 1_000_000)
	fmt.Println(lease.Permits(), err)
	// Output: 1000000 <nil>
}

func ExampleRejectedError() {
	limiter, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "exports", PermitLimit: 1})
	limiter.TryAcquire(1)
	_, err := limiter.Acquire(context.Background(), 1)

	var rejected *core.RejectedError
	if errors.As(err, &rejected) {
		fmt.Println(rejected.Limiter, "-", rejected.Reason)
	}
	fmt.Println(errors.Is(err, core.ErrRejected))
	logger().Warn("no export", "err", rejected)
	// Output:
	// exports - queue limit reached
	// true
	// level=WARN msg="no export" err.limiter=exports err.permits=1 err.reason="queue limit reached"
}

func ExampleStatistics() {
	limiter, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 3})
	limiter.TryAcquire(2)
	limiter.TryAcquire(2)
	fmt.Println(limiter.Statistics())
	logger().Info("exports", "slots", limiter.Statistics())
	// Output:
	// 1 of 3 available, 0 queued, 1 granted, 1 rejected
	// level=INFO msg=exports slots.limit=3 slots.available=1 slots.queued=0 slots.granted=1 slots.rejected=1
}

// logger writes lines without a time.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// The equivalent of rate.NewLimiter(20, 1) of x/time/rate: 20 a second, one at a time.
func ExamplePerSecond() {
	o := core.PerSecond(20, 1)
	fmt.Println(o.TokensPerPeriod, "token every", o.ReplenishmentPeriod, "and never more than", o.TokenLimit)
	o.Name, o.QueueLimit = "mail", 100 // at most 100 permits wait
	limiter, err := core.NewTokenBucket(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(limiter.TryAcquire(1).Acquired(), limiter.TryAcquire(1).Acquired())
	// Output:
	// 1 token every 50ms and never more than 1
	// true false
}

func ExampleEvery() {
	limiter, err := core.NewTokenBucket(core.Every(10*time.Minute, 2)) // two at once, then one every ten minutes
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter.TryAcquire(2)
	retryAfter, _ := core.RetryAfter.From(limiter.TryAcquire(2))
	fmt.Println(retryAfter.Round(time.Minute))
	// Output: 20m0s
}

// To change one option, start from the options in force.
func ExampleTokenBucket_Options() {
	limiter, err := core.NewTokenBucket(core.PerSecond(100, 10))
	if err != nil {
		fmt.Println(err)
		return
	}
	o := limiter.Options()
	o.TokenLimit = 20
	fmt.Println(limiter.Update(o), limiter.Options().TokenLimit, "every", limiter.Options().ReplenishmentPeriod)
	// Output: <nil> 20 every 10ms
}

func ExampleExceedsLimitError() {
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "uploads", PermitLimit: 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = limiter.Acquire(context.Background(), 7)
	fmt.Println(err)
	if exceeds := new(core.ExceedsLimitError); errors.As(err, &exceeds) {
		fmt.Println("split it into pieces of", exceeds.Limit)
	}
	fmt.Println(errors.Is(err, core.ErrPermitsExceedLimit))
	// Output:
	// core: 7 permits are more than the limit of 5 of "uploads"
	// split it into pieces of 5
	// true
}

// Items that are processed together give their permits back together.
func ExampleReleaseAll() {
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 10})
	if err != nil {
		panic(err)
	}
	var batch []core.Lease
	for range 4 {
		batch = append(batch, limiter.TryAcquire(2))
	}
	fmt.Println(limiter.Available())
	core.ReleaseAll(batch)
	fmt.Println(limiter.Available())
	// Output:
	// 2
	// 10
}

// A caller that tries before it waits does not count as rejected.
func ExampleTryQuietly() {
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1})
	if err != nil {
		panic(err)
	}
	first, ok := core.TryQuietly(limiter, 1)
	fmt.Println(first.Permits(), ok)
	_, ok = core.TryQuietly(limiter, 1)
	fmt.Println(ok, limiter.Statistics().Rejected)
	// Output:
	// 1 true
	// false 0
}

func ExampleChainedLimiter_Limiters() {
	rate, err := core.NewTokenBucket(core.PerSecond(100, 20))
	if err != nil {
		panic(err)
	}
	chain, err := core.Chain(core.Unlimited(), rate)
	if err != nil {
		panic(err)
	}
	for _, l := range chain.Limiters() {
		fmt.Printf("%T\n", l)
	}
	// Output:
	// *core.unlimited
	// *core.TokenBucket
}

// As finds what a limiter is, through the views of it.
func ExampleAs() {
	bucket, err := core.NewTokenBucket(core.PerSecond(10, 5))
	if err != nil {
		panic(err)
	}
	view := core.WithReason(bucket, "too many requests")
	view.TryAcquire(5)
	if r, ok := core.As[core.Resetter](view); ok {
		r.Reset()
	}
	fmt.Println(view.Available())
	// Output: 5
}
