package partition_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// A request of the examples.
type request struct{ client string }

func byClient(r request) string { return r.client }

// tenADay is a bucket of ten permits, which come back within a day.
func tenADay(string) (core.Limiter, error) {
	return core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: 10, TokensPerPeriod: 10, ReplenishmentPeriod: 24 * time.Hour,
	})
}

// Each client has a bucket of its own.
func ExampleNew() {
	limits, err := partition.New(partition.Options[request, string]{
		Name:        "api",
		Key:         byClient,
		New:         tenADay,
		IdleTimeout: time.Minute,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limits.Close()

	for _, client := range []string{"ann", "bob"} {
		granted := 0
		for range 15 {
			if limits.TryAcquire(request{client: client}, 1).Acquired() {
				granted++
			}
		}
		fmt.Println(client, granted)
	}
	fmt.Println(limits.Counts().Live, "clients")
	// Output:
	// ann 10
	// bob 10
	// 2 clients
}

// The jobs of one client wait for each other, but not for those of other clients.
func ExampleKeyed_Acquire() {
	limits, _ := partition.New(partition.Options[request, string]{
		Key: byClient,
		New: func(string) (core.Limiter, error) {
			return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 100})
		},
	})
	ctx := context.Background()
	ann, _ := limits.Acquire(ctx, request{client: "ann"}, 1)

	done := make(chan struct{})
	go func() {
		defer close(done)
		lease, _ := limits.Acquire(ctx, request{client: "ann"}, 1)
		fmt.Println("second job of ann's")
		lease.Release()
	}()
	bob, _ := limits.Acquire(ctx, request{client: "bob"}, 1)
	fmt.Println("job of bob's")
	bob.Release()
	ann.Release()
	<-done
	// Unordered output:
	// job of bob's
	// second job of ann's
}

// Refund of a lease returns permits that were not used, even to a token bucket.
func ExampleKeyed_TryAcquire() {
	limits, _ := partition.New(partition.Options[request, string]{Key: byClient, New: tenADay})
	r := request{client: "ann"}
	lease := limits.TryAcquire(r, 4)
	s, _ := limits.Statistics(r)
	fmt.Println(s.Available, "left")
	lease.Refund()
	s, _ = limits.Statistics(r)
	fmt.Println(s.Available, "left")
	// Output:
	// 6 left
	// 10 left
}

// A client gets a limit of its own while its limiter is in use.
func ExampleKeyed_Get() {
	limits, _ := partition.New(partition.Options[request, string]{Key: byClient, New: tenADay})
	limits.TryAcquire(request{client: "ann"}, 10)
	if l, ok := limits.Get("ann"); ok {
		o := l.(*core.TokenBucket).Options()
		o.TokenLimit = 20
		fmt.Println(l.(*core.TokenBucket).Update(o))
	}
	_, ok := limits.Get("bob")
	fmt.Println(ok)
	// Output:
	// <nil>
	// false
}

// Which client is rejected most?
func ExampleKeyed_All() {
	limits, _ := partition.New(partition.Options[request, string]{Key: byClient, New: tenADay})
	for range 25 {
		limits.TryAcquire(request{client: "ann"}, 1)
	}
	limits.TryAcquire(request{client: "bob"}, 1)
	for client, l := range limits.All() {
		if s := l.(core.Reporter).Statistics(); s.Rejected > 0 {
			fmt.Println(client, s.Rejected)
		}
	}
	// Output: ann 15
}

// An idle limiter answers as a new one does, so its partition can be dropped.
func ExampleKeyed_Sweep() {
	limits, _ := partition.New(partition.Options[request, string]{
		Key: byClient, New: tenADay,
		IdleTimeout: time.Nanosecond,
		OnEvict:     func(client string, _ core.Limiter) { fmt.Println(client, "is gone") },
	})
	limits.TryAcquire(request{client: "ann"}, 1) // not idle before tomorrow
	bob := request{client: "bob"}
	limits.TryAcquire(bob, 1).Refund()
	limits.Sweep() // finds bob's limiter idle
	time.Sleep(time.Millisecond)
	limits.Sweep()
	fmt.Println(limits.Len(), "left")
	// Output:
	// bob is gone
	// 1 left
}

// The first two clients have room. All others share a limiter.
func ExampleOptions_group() {
	limits, _ := partition.New(partition.Options[request, string]{
		Key: byClient, New: tenADay,
		MaxPartitions: 2,
		Group:         func(string) string { return "others" },
	})
	for _, client := range []string{"ann", "bob", "cyd", "dan"} {
		lease := limits.TryAcquire(request{client: client}, 8)
		fmt.Println(client, lease.Acquired())
	}
	// Output:
	// ann true
	// bob true
	// cyd true
	// dan false
}

// Each client has the limits of its plan. A plan that changes applies from the next request on, and what was granted
// still counts.
func ExampleKeyed_Refresh() {
	plans := map[string]string{"ann": "fixed 10/day, concurrency 2"} // guard it with a mutex in a server
	limits, err := partition.New(partition.Options[request, string]{
		Key: byClient,
		Update: func(client string, now core.Limiter) (core.Limiter, error) {
			plan, err := spec.ParseLimits(plans[client])
			if err != nil {
				return nil, err
			}
			return plan.Apply(now, client)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ann := request{client: "ann"}
	limits.TryAcquire(ann, 2).Release()

	plans["ann"] = "fixed 100/day" // any number at once
	fmt.Println(limits.Refresh("ann"))
	s, _ := limits.Statistics(ann)
	fmt.Println(s.Available, "of", s.Limit)
	// Output:
	// <nil>
	// 98 of 100
}

// Ten a day for each client, and twelve for all together.
func ExampleChain() {
	limits, _ := partition.New(partition.Options[request, string]{Key: byClient, New: tenADay})
	all, _ := core.NewTokenBucket(core.TokenBucketOptions{
		Name: "all", TokenLimit: 12, TokensPerPeriod: 12, ReplenishmentPeriod: 24 * time.Hour,
	})
	chain, err := partition.Chain(limits, partition.Shared[request](all))
	if err != nil {
		fmt.Println(err)
		return
	}
	ann, bob := request{client: "ann"}, request{client: "bob"}
	fmt.Println(chain.TryAcquire(ann, 8).Acquired())
	lease := chain.TryAcquire(bob, 8)
	if rejected := new(core.RejectedError); errors.As(lease.Err(), &rejected) {
		fmt.Println("rejected by", rejected.Limiter)
	}
	s, _ := limits.Statistics(bob)
	fmt.Println(s.Available, "left of bob's")
	// Output:
	// true
	// rejected by all
	// 10 left of bob's
}

// A limiter without keys, where a limiter of requests is needed.
func ExampleShared() {
	l := partition.Shared[request](core.Unlimited())
	fmt.Println(l.TryAcquire(request{client: "ann"}, 1).Acquired())
	// Output: true
}

// A limiter of names answers requests.
func ExampleTranslate() {
	byName, _ := partition.New(partition.Options[string, string]{Key: strings.ToLower, New: tenADay})
	l := partition.Translate(byName, byClient)
	l.TryAcquire(request{client: "Ann"}, 10)
	fmt.Println(l.TryAcquire(request{client: "ann"}, 1).Acquired())
	// Output: false
}

// The limiter of one client plugs in where a core.Limiter does: here, in a chain.
func ExampleFor() {
	limits, _ := partition.New(partition.Options[request, string]{Key: byClient, New: tenADay})
	ann := partition.For(limits, request{client: "ann"})
	once, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1})
	chain, _ := core.Chain(once, ann)
	lease := chain.TryAcquire(1)
	fmt.Println(lease.Acquired(), ann.Available())
	// Output: true 9
}

func ExampleNewByKey() {
	users, err := partition.NewByKey(func(string) (core.Limiter, error) {
		return core.NewTokenBucket(core.PerSecond(10, 2))
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(users.TryAcquire("ann", 2).Acquired(), users.TryAcquire("ann", 1).Acquired(), users.TryAcquire("bob", 1).Acquired())
	// Output: true false true
}
