package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// start returns a store on a Redis in memory. In your program, goredis.New or rueidis.New makes the store of your client.
func start() (store redislimit.Store, stop func()) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: m.Addr(), DialerRetries: 1})
	return scripts{client}, func() {
		client.Close()
		m.Close()
	}
}

// Two limiters with one Key share the limit, as those of two processes do.
func ExampleNew() {
	store, stop := start()
	defer stop()
	limit := core.TokenBucketOptions{TokenLimit: 3, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}
	options := redislimit.Options{Store: store, Key: "orders", Timeout: time.Second}
	here := core.Must(redislimit.New(limit, options))
	defer here.Close()
	there := core.Must(redislimit.New(limit, options))
	defer there.Close()

	fmt.Println("here:", here.TryAcquire(2).Acquired())
	fmt.Println("there:", there.TryAcquire(2).Acquired())
	fmt.Println("left:", there.Available())
	// Output:
	// here: true
	// there: false
	// left: 1
}

// Work under a lease should end when the lease is lost, as others are then granted its
// permits.
func ExampleContext() {
	store, stop := start()
	defer stop()
	limiter := core.Must(redislimit.New(core.ConcurrencyLimiterOptions{PermitLimit: 1}, redislimit.Options{Store: store, Key: "backup", Timeout: time.Second}))
	defer limiter.Close()

	lease := limiter.TryAcquire(1)
	if err := lease.Err(); err != nil {
		fmt.Println(err)
		return
	}
	ctx := redislimit.Context(context.Background(), lease)
	_, fenced := redislimit.FencingToken.From(lease)
	fmt.Println("held:", ctx.Err() == nil, "with a fencing token:", fenced)

	lease.Release()
	fmt.Println("released:", context.Cause(ctx))
	// Output:
	// held: true with a fencing token: true
	// released: context canceled
}

// The cost of work may be known only when it is done. Settle corrects it, for all processes.
func Example_settle() {
	store, stop := start()
	defer stop()
	limiter := core.Must(redislimit.New(core.TokenBucketOptions{TokenLimit: 1000, TokensPerPeriod: 1000, ReplenishmentPeriod: time.Hour}, redislimit.Options{Store: store, Key: "tokens", Timeout: time.Second}))
	defer limiter.Close()

	estimate := limiter.TryAcquire(300)
	fmt.Println("estimated:", limiter.Available())
	estimate.Settle(120)
	fmt.Println("cheaper:", limiter.Available())
	limiter.TryAcquire(100).Settle(1500)
	fmt.Println("far dearer:", limiter.Available())
	limiter.Reset()
	fmt.Println("reset:", limiter.Available())
	// Output:
	// estimated: 700
	// cheaper: 880
	// far dearer: 0
	// reset: 1000
}

// An operator resets a limit, and sees whether it worked.
func ExampleLimiter_TryReset() {
	store, stop := start()
	limiter := core.Must(redislimit.New(core.TokenBucketOptions{TokenLimit: 3, TokensPerPeriod: 3, ReplenishmentPeriod: time.Hour}, redislimit.Options{Store: store, Key: "orders", Timeout: time.Second}))
	defer limiter.Close()

	limiter.TryAcquire(3)
	fmt.Println(limiter.TryReset(), limiter.Available())
	stop()
	fmt.Println(errors.Is(limiter.TryReset(), redislimit.ErrStore))
	// Output:
	// <nil> 3
	// true
}

// While the store is unreachable, UseLocal has a limiter of this process decide.
func ExampleUnavailable() {
	store, stop := start()
	stop() // it is unreachable
	local := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}))
	defer local.Close()
	for _, shared := range []redislimit.Options{
		{Unavailable: redislimit.FailClosed},
		{Unavailable: redislimit.FailOpen},
		{Unavailable: redislimit.UseLocal, Local: local}, // its share, for the time being
	} {
		shared.Store, shared.Key = store, "orders"
		limiter := core.Must(redislimit.New(core.PerSecond(100, 100), shared))
		unwatch := redislimit.Watch(shared.Store, func(up bool, err error) { log.Print("Redis is reachable: ", up, ", ", err) })
		first, second := limiter.TryAcquire(1), limiter.TryAcquire(1)
		fmt.Println(first.Acquired(), second.Acquired(), errors.Is(second.Err(), redislimit.ErrStore))
		unwatch()
		limiter.Close()
	}
	// Output:
	// false false true
	// true true false
	// true false false
}

// An hourly quota for all processes together. It starts again with each hour of the server's clock.
func ExampleNew_fixedWindow() {
	store, stop := start()
	defer stop()
	limiter := core.Must(redislimit.New(core.FixedWindowOptions{PermitLimit: 1000, Window: time.Hour}, redislimit.Options{Store: store, Key: "partner", Timeout: time.Second}))
	defer limiter.Close()
	fmt.Println(limiter.TryAcquire(1000).Acquired(), limiter.TryAcquire(1).Acquired())
	// Output: true false
}

// No minute sees more than the limit, whatever process asks.
func ExampleNew_slidingWindow() {
	store, stop := start()
	defer stop()
	limiter := core.Must(redislimit.New(core.SlidingWindowOptions{PermitLimit: 2, Window: time.Minute, SegmentsPerWindow: 6}, redislimit.Options{Store: store, Key: "codes", Timeout: time.Second}))
	defer limiter.Close()
	for range 3 {
		fmt.Println(limiter.TryAcquire(1).Acquired())
	}
	// Output:
	// true
	// true
	// false
}

// GiveBack is for work that has cost less than was taken for it, where the lease has been forgotten.
func ExampleLimiter_GiveBack() {
	store, stop := start()
	defer stop()
	l := core.Must(redislimit.New(core.FixedWindowOptions{PermitLimit: 10, Window: 24 * time.Hour}, redislimit.Options{Store: store, Key: "tokens", Timeout: time.Second}))
	defer l.Close()
	l.TryAcquire(8)
	l.GiveBack(5)
	fmt.Println(l.Available())
	l.GiveBack(100)
	fmt.Println(l.Available())
	// Output:
	// 7
	// 10
}
