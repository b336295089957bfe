package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
)

func ExampleDaily() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	noon := time.Date(2026, time.March, 29, 12, 0, 0, 0, berlin)
	start, end := core.Daily(berlin).Bounds(noon)
	fmt.Println(end.Sub(start), "on the day on which summer time starts")
	// Output:
	// 23h0m0s on the day on which summer time starts
}

func ExampleWeekly() {
	start, _ := core.Weekly(time.Sunday, nil).Bounds(time.Date(2026, time.March, 27, 12, 0, 0, 0, time.UTC))
	fmt.Println(start.Format(time.DateOnly), start.Weekday())
	// Output:
	// 2026-03-22 Sunday
}

func ExampleMonthly() {
	billing := core.Monthly(31, nil) // in February from the last day
	start, end := billing.Bounds(time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(start.Format(time.DateOnly), end.Format(time.DateOnly))
	// Output:
	// 2027-02-28 2027-03-31
}

func ExampleYearly() {
	start, end := core.Yearly(time.UTC).Bounds(time.Date(2028, time.July, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(end.Sub(start).Hours() / 24)
	// Output:
	// 366
}

func ExampleCalendar_Bounds() {
	samoa, err := time.LoadLocation("Pacific/Apia")
	if err != nil {
		fmt.Println(err)
		return
	}
	// On 30 December 2011 Samoa crossed the date line: the day did not exist.
	start, end := core.Daily(samoa).Bounds(time.Date(2011, time.December, 29, 12, 0, 0, 0, samoa))
	fmt.Println(start)
	fmt.Println(end)
	// Output:
	// 2011-12-29 00:00:00 -1000 -10
	// 2011-12-31 00:00:00 +1400 +14
}

func ExampleCalendar_String() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(core.Monthly(15, berlin))
	fmt.Println(core.Weekly(time.Sunday, nil))
	fmt.Println(core.Daily(nil))
	// Output:
	// month day 15 tz Europe/Berlin
	// week from sunday
	// day
}

func ExampleLease_Release() {
	limiter, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 3})
	lease := limiter.TryAcquire(2)
	same := lease
	lease.Release()
	same.Release() // the same lease: nothing happens
	fmt.Println(limiter.Available())
	// Output: 3
}

func ExampleLease_Err() {
	limiter, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 3})
	fmt.Println(limiter.TryAcquire(4).Err())
	fmt.Println(limiter.TryAcquire(-1).Err())
	fmt.Println(limiter.TryAcquire(3).Err())
	fmt.Println(limiter.TryAcquire(1).Err())
	// Output:
	// core: 4 permits are more than the limit of 3
	// core: negative permits
	// <nil>
	// core: rejected 1 permit: 0 of 3 available
}

func ExampleLease_Metadata() {
	limiter, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "exports", PermitLimit: 3})
	limiter.TryAcquire(3)
	for name, value := range limiter.TryAcquire(1).Metadata() {
		fmt.Println(name, value)
	}
	// Unordered output:
	// REASON_PHRASE permits exhausted
	// LIMITER_NAME exports
	// PERMIT_LIMIT 3
	// REMAINING 0
}

func ExampleNewMetadataKey() {
	region := core.NewMetadataKey[string]("REGION")
	lease := core.Grant(1, nil).With(region.With("eu"))
	value, ok := region.From(lease)
	fmt.Println(region.Name(), value, ok)
	// Output: REGION eu true
}

// officeHours is a custom limiter: it grants by day, and by night reports when to retry.
type officeHours struct {
	now     func() time.Time
	release func()
}

func (o officeHours) TryAcquire(permits int) core.Lease {
	switch hour := o.now().Hour(); {
	case permits < 0:
		return core.Fail(core.ErrNegativePermits)
	case hour < 8:
		return core.Reject(core.LimiterName.With("office"), core.ReasonPhrase.With("closed at night"),
			core.RetryAfter.With(time.Duration(8-hour)*time.Hour))
	}
	return core.Grant(permits, o.release, core.LimiterName.With("office"))
}

func (o officeHours) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if err := ctx.Err(); err != nil {
		return core.Fail(err), err
	}
	lease := o.TryAcquire(permits)
	return lease, lease.Err()
}

func (o officeHours) Available() int { return 1 }

func ExampleGrant() {
	day := officeHours{
		now:     func() time.Time { return time.Date(2000, 1, 1, 10, 0, 0, 0, time.UTC) },
		release: func() { fmt.Println("released") },
	}
	lease := day.TryAcquire(1)
	name, _ := core.LimiterName.From(lease)
	fmt.Println(lease.Acquired(), name)
	lease.Release()
	lease.Release()
	// Output:
	// true office
	// released
}

func ExampleReject() {
	night := officeHours{now: func() time.Time { return time.Date(2000, 1, 1, 6, 0, 0, 0, time.UTC) }}
	_, err := night.Acquire(context.Background(), 1)
	fmt.Println(err)
	// Output: core: "office" rejected: closed at night, retry after 2h
}

func ExampleFail() {
	lease := core.Fail(core.ErrClosed)
	fmt.Println(lease.Acquired(), errors.Is(lease.Err(), core.ErrClosed))
	// Output: false true
}

func ExampleQueueOrder() {
	var config struct{ Order core.QueueOrder }
	if err := json.Unmarshal([]byte(`{"Order":"newest-first"}`), &config); err != nil {
		panic(err)
	}
	text, _ := json.Marshal(config)
	fmt.Println(config.Order, string(text))
	fmt.Println(json.Unmarshal([]byte(`{"Order":"random"}`), &config))
	// Output:
	// newest-first {"Order":"newest-first"}
	// core: queue order "random", want oldest-first, newest-first or fair-share
}

// One tenant has sent three requests before the other's first. They take turns.
func ExampleWithFlow() {
	limiter := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		PermitLimit: 1, QueueLimit: 100, QueueOrder: core.FairShare,
	}))
	lease := limiter.TryAcquire(1)
	served := make(chan string)
	for i, tenant := range []string{"greedy", "greedy", "greedy", "modest"} {
		go func() {
			ctx := core.WithFlow(context.Background(), core.Flow{Key: tenant})
			lease, err := limiter.Acquire(ctx, 1)
			if err == nil {
				served <- tenant
				lease.Release()
			}
		}()
		for limiter.Statistics().Queued <= i {
			runtime.Gosched()
		}
	}
	lease.Release()
	for range 4 {
		fmt.Println(<-served)
	}
	// Output:
	// greedy
	// modest
	// greedy
	// greedy
}

func ExampleFlowFromContext() {
	ctx := core.WithFlow(context.Background(), core.Flow{Key: "tenant 7", Weight: 4, Priority: 1000})
	flow, ok := core.FlowFromContext(ctx)
	fmt.Println(flow, ok)
	// Output: {tenant 7 4 100} true
}

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
	// 2 core: rejected 1 permit: 0 of 2 available
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

func ExampleLease_Refund() {
	limiter, _ := core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
	lease := limiter.TryAcquire(5)
	lease.Refund() // the work was not done
	lease.Refund()
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
	// Output: core: rejected 1 permit: 0 of 1 available, one export at a time
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
	// level=WARN msg="no export" err.limiter=exports err.permits=1 err.limit=1 err.available=0 err.reason="queue limit reached" err.detail="QueueLimit is 0"
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
	limiter, err := core.NewTokenBucket(core.Every(10*time.Minute, 2)) // bursts of two, then one every ten minutes
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter.TryAcquire(2)
	retryAfter, _ := core.RetryAfter.From(limiter.TryAcquire(2))
	fmt.Println(retryAfter.Round(time.Minute))
	// Output: 20m0s
}

// To change one option, start from the current options.
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

func ExampleTokenBucket_GiveBack() {
	l, _ := core.NewTokenBucket(core.PerSecond(1, 10))
	l.TryAcquire(10) // its lease is forgotten
	l.GiveBack(4)    // the work has cost 6 only
	fmt.Println(l.Available())
	// Output: 4
}

func ExampleMust() {
	mail := core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 1000, Window: 24 * time.Hour}))
	fmt.Println(mail)
	// Output: fixed window of 24h0m0s: 1000 of 1000 available, 0 queued, 0 granted, 0 rejected
}

func ExampleRate() {
	// Three requests in two seconds.
	limiter, err := core.NewTokenBucket(core.Rate(1.5, 3))
	if err != nil {
		panic(err)
	}
	fmt.Println(limiter.Options().Rate())

	_, err = core.NewTokenBucket(core.Rate(0, 3))
	fmt.Println(err)
	// Output:
	// 1.5
	// core: Rate = 0, want a finite rate of at least one permit in 292 years
}

// A request is let through at its estimate; when its cost is known, it is settled. What it has
// cost more is owed, and no request is let through until that is paid.
func ExampleLease_Settle() {
	tokens, _ := core.NewTokenBucket(core.Every(time.Hour, 100)) // bursts of 100, then one an hour

	cheap := tokens.TryAcquire(60)
	fmt.Println("estimated:", tokens.Available())
	cheap = cheap.Settle(10)
	fmt.Println("cost", cheap.Permits(), "and left", tokens.Available())

	dear := tokens.TryAcquire(60)
	dear.Settle(91)
	retry, _ := core.RetryAfter.From(tokens.TryAcquire(1))
	fmt.Println("owing 1:", tokens.Available(), retry.Round(time.Hour))
	// Output:
	// estimated: 40
	// cost 10 and left 90
	// owing 1: 0 2h0m0s
}

// A user was locked out by mistake.
func ExampleTokenBucket_Reset() {
	logins, _ := core.NewTokenBucket(core.Every(time.Hour, 3))
	for range 5 {
		logins.TryAcquire(1)
	}
	fmt.Println(logins.TryAcquire(1).Acquired())
	logins.Reset()
	fmt.Println(logins.TryAcquire(1).Acquired())
	fmt.Println(logins.Statistics())
	// Output:
	// false
	// true
	// 2 of 3 available, 0 queued, 4 granted, 3 rejected
}

func ExampleConcurrencyLimiter_Semaphore() {
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 2})
	if err != nil {
		panic(err)
	}
	connections := limiter.Semaphore()
	if err := connections.Acquire(context.Background(), 1); err != nil {
		panic(err)
	}
	fmt.Println(connections.TryAcquire(2))
	connections.Release(1)
	fmt.Println(connections.TryAcquire(2))
	// Output:
	// false
	// true
}

// A limit is watched before it is enforced: no request is rejected, and the counts tell who would
// have been.
func ExampleShadow() {
	limiter, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "new limit", PermitLimit: 1})
	watched := core.Shadow(limiter)

	first, second := watched.TryAcquire(1), watched.TryAcquire(1)
	fmt.Println(first.Acquired(), second.Acquired())
	if err, ok := core.Shadowed.From(second); ok {
		fmt.Println("would be rejected:", errors.Is(err, core.ErrRejected))
	}
	second.Release() // it held nothing
	first.Release()
	fmt.Println(limiter.Statistics())
	// Output:
	// true true
	// would be rejected: true
	// 1 of 1 available, 0 queued, 1 granted, 1 rejected
}

func ExampleSwitch() {
	limit := core.NewSwitch(nil) // no limit yet
	fmt.Println(limit.TryAcquire(1_000_000).Acquired())

	limiter, err := core.NewTokenBucket(core.PerSecond(100, 20))
	if err != nil {
		panic(err)
	}
	limit.Set(limiter) // also for requests that wait
	fmt.Println(limit.TryAcquire(30).Err())

	if err := limit.Apply(core.PerSecond(200, 40)); err != nil { // updates that limiter
		panic(err)
	}
	fmt.Println(limit.Statistics().Limit)

	limit.Set(core.Blocked())
	fmt.Println(limit.TryAcquire(1).Err())
	// Output:
	// true
	// core: 30 permits are more than the limit of 20
	// 40
	// core: rejected 1 permit: blocked
}

func ExampleBlocked() {
	maintenance := core.Blocked()
	fmt.Println(maintenance.TryAcquire(1).Err())
	// Output: core: rejected 1 permit: blocked
}

// credit is a limiter of one's own. What is paid in does not come back with time.
type credit struct {
	mu   sync.Mutex
	left int
}

func (c *credit) TryAcquire(permits int) core.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case permits < 0:
		return core.Fail(core.ErrNegativePermits)
	case max(permits, 1) > c.left:
		return core.Reject(core.ReasonPhrase.With("no credit"))
	}
	c.left -= permits
	return core.GrantFrom(c, permits)
}

func (c *credit) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return core.Fail(err), err
	}
	lease := c.TryAcquire(permits)
	return lease, lease.Err()
}

func (c *credit) Available() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.left, 0)
}

// Settle makes credit a core.Granter: its leases can be settled, through whatever it was asked.
func (c *credit) Settle(had, now int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left += had - now
	return now
}

func ExampleGrantFrom() {
	account := &credit{left: 100}
	jobs, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 50})
	if err != nil {
		panic(err)
	}
	both, err := core.Chain(jobs, account)
	if err != nil {
		panic(err)
	}
	lease := both.TryAcquire(10) // an estimate
	defer func() { lease.Release() }()
	fmt.Println(account.Available())
	lease = lease.Settle(3) // it has cost less
	fmt.Println(account.Available(), jobs.Available())
	// Output:
	// 90
	// 97 47
}

func ExampleApply() {
	limiter, err := core.New(core.PerSecond(100, 20))
	if err != nil {
		panic(err)
	}
	limiter.TryAcquire(15)
	same, err := core.Apply(limiter, core.PerSecond(50, 10)) // of its kind: updated, the tokens stay
	fmt.Println(same == limiter, same.Available(), err)
	other, err := core.Apply(limiter, core.ConcurrencyLimiterOptions{PermitLimit: 8})
	fmt.Println(other == limiter, other.Available(), err)
	// Output:
	// true 5 <nil>
	// false 8 <nil>
}

func ExamplePaused() {
	bandwidth := core.NewSwitch(core.Paused())
	fmt.Println(bandwidth.TryAcquire(1).Err())
	done := make(chan error)
	go func() {
		_, err := bandwidth.Acquire(context.Background(), 1) // waits
		done <- err
	}()
	bandwidth.Set(core.Unlimited())
	fmt.Println(<-done)
	// Output:
	// core: rejected 1 permit: paused
	// <nil>
}
