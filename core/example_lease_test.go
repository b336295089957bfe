package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/sluice-go/sluice/core"
)

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
	// core: rejected: permits exhausted
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
	// Output: core: rejected by "office": closed at night, retry after 2h0m0s
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
