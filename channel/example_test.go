package channel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// A channel that holds messages of at most 1 KiB together. When ctx ends, no message that was sent is lost:
// the sender watches ctx, and the receiver continues until the channel is closed and empty.
func Example() {
	ctx := context.Background()
	budget, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1 << 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, err := channel.New(channel.Options[string]{
		Limiter: budget,
		Cost:    func(s string) int { return len(s) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		defer messages.Close()
		for _, m := range []string{"hello", "world"} {
			if ctx.Err() != nil { // the source watches ctx, and Send does not
				return
			}
			_ = messages.Send(context.WithoutCancel(ctx), m)
		}
	}()
	for m := range messages.All(context.WithoutCancel(ctx)) {
		fmt.Println(m)
	}
	fmt.Println(budget.Available(), "bytes free")
	// Output:
	// hello
	// world
	// 1024 bytes free
}

// Shut down without losing an item: when ctx ends, the loops that read the source stop, and Send does not watch ctx;
// the channel is closed once all senders have returned, and the receiver continues until it is closed and empty.
func Example_drain() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	lines, err := channel.Bounded[string](100)
	if err != nil {
		fmt.Println(err)
		return
	}

	var senders sync.WaitGroup
	var read atomic.Int64
	for range 4 {
		senders.Go(func() {
			for ctx.Err() == nil { // the source watches ctx
				read.Add(1)
				_ = lines.Send(context.WithoutCancel(ctx), "a line")
			}
		})
	}
	go func() {
		senders.Wait()
		lines.Close()
	}()

	received := int64(0)
	for range lines.All(context.WithoutCancel(ctx)) {
		received++
		if received == 1000 {
			stop() // a signal, say
		}
	}
	fmt.Println("lost:", read.Load()-received)
	// Output: lost: 0
}

func ExampleNew() {
	_, err := channel.New(channel.Options[int]{Capacity: -1})
	fmt.Println(err)
	// Output:
	// channel: Options.Limiter = nil, want a limiter (core.Unlimited() for none)
	// channel: Options.Capacity = -1, want at least 0
}

func ExampleBounded() {
	c, _ := channel.Bounded[int](2)
	fmt.Println(c.TrySend(1), c.TrySend(2))
	fmt.Println(c.TrySend(3))
	v, ok := c.TryReceive()
	fmt.Println(v, ok, c.Len())
	// Output:
	// <nil> <nil>
	// core: rejected 1 permit: permits exhausted
	// 1 true 1
}

// Ten items a second at most, a burst of two; a sender that is too fast gets a RetryAfter.
func ExampleLimitedChannel_TrySend() {
	rate, _ := core.NewTokenBucket(core.TokenBucketOptions{
		Name: "events", TokenLimit: 2, TokensPerPeriod: 2, ReplenishmentPeriod: time.Hour,
	})
	c, _ := channel.New(channel.Options[string]{Limiter: rate})
	_, _ = c.TrySend("a"), c.TrySend("b")
	err := c.TrySend("c")
	if rejected := new(core.RejectedError); errors.As(err, &rejected) {
		fmt.Println(rejected.Limiter, rejected.Reason, rejected.RetryAfter > 59*time.Minute)
	}
	// Output: events permits exhausted true
}

func ExampleLimitedChannel_Send() {
	c, _ := channel.Bounded[string](1)
	_ = c.TrySend("first")
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	fmt.Println(c.Send(ctx, "second")) // it is full, and nothing is received
	// Output: context deadline exceeded
}

func ExampleLimitedChannel_WaitToSend() {
	c, _ := channel.Bounded[time.Time](4)
	ctx := context.Background()
	// Make the item only when there is room for it.
	for c.WaitToSend(ctx) == nil {
		if c.TrySend(time.Now()) == nil {
			break
		}
	}
	fmt.Println(c.Len())
	// Output: 1
}

// The item's permits stay taken until the work is done.
func ExampleLimitedChannel_ReceiveLease() {
	limiter, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1})
	c, _ := channel.New(channel.Options[string]{Limiter: limiter})
	_ = c.TrySend("job")
	job, lease, _ := c.ReceiveLease(context.Background())
	fmt.Println(job, "in work:", c.TrySend("next"))
	lease.Release()
	fmt.Println(job, "done:", c.TrySend("next"))
	// Output:
	// job in work: core: rejected 1 permit: 0 of 1 available
	// job done: <nil>
}

func ExampleLimitedChannel_ReceiveBatch() {
	c, _ := channel.Bounded[int](8)
	for i := range 5 {
		_ = c.TrySend(i)
	}
	batch := make([]int, 3)
	for c.Len() > 0 {
		n, _ := c.ReceiveBatch(context.Background(), batch)
		fmt.Println(batch[:n])
	}
	// Output:
	// [0 1 2]
	// [3 4]
}

func ExampleLimitedChannel_WaitToReceive() {
	c, _ := channel.Bounded[int](8)
	_ = c.TrySend(7)
	if c.WaitToReceive(context.Background()) == nil {
		fmt.Println(c.TryPeek())
		fmt.Println(c.TryReceive())
	}
	// Output:
	// 7 true
	// 7 true
}

func ExampleLimitedChannel_All() {
	c, _ := channel.Bounded[int](8)
	_, _, _ = c.TrySend(1), c.TrySend(2), c.Close()
	fmt.Println(slices.Collect(c.All(context.Background())))
	// Output: [1 2]
}

func ExampleLimitedChannel_Chan() {
	c, _ := channel.Bounded[string](8)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	items := c.Chan(ctx)
	_, _ = c.TrySend("item"), c.Close()
	for {
		select {
		case v, ok := <-items:
			if !ok {
				return
			}
			fmt.Println(v)
		case <-ctx.Done():
			return
		}
	}
	// Output: item
}

// A display that wants the latest values: when it falls behind, it loses old ones.
func ExampleOverflow() {
	budget, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 2})
	c, _ := channel.New(channel.Options[int]{
		Limiter:  budget,
		Overflow: channel.DropOldest,
		OnDrop:   func(v int) { fmt.Println("lost", v) },
	})
	for i := range 3 {
		_ = c.TrySend(i)
	}
	_ = c.Close()
	fmt.Println(slices.Collect(c.All(context.Background())))
	// Output:
	// lost 0
	// [1 2]
}

// Two channels share a budget of bytes.
func ExampleOptions() {
	budget, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "memory", PermitLimit: 10})
	options := channel.Options[[]byte]{Limiter: budget, Cost: func(b []byte) int { return len(b) }}
	a, _ := channel.New(options)
	b, _ := channel.New(options)
	fmt.Println(a.TrySend(make([]byte, 8)))
	fmt.Println(b.TrySend(make([]byte, 8)))
	fmt.Println(b.TrySend(make([]byte, 11)))
	// Output:
	// <nil>
	// core: "memory" rejected 8 permits: 2 of 10 available
	// core: 11 permits are more than the limit of 10 of "memory"
}

// Err says why a channel has ended.
func ExampleLimitedChannel_CloseWithError() {
	lines, err := channel.Bounded[string](10)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(lines.Send(ctx, "the last line"))
	lines.CloseWithError(errors.New("connection lost"))
	for line := range lines.All(ctx) {
		fmt.Println(line)
	}
	fmt.Println(lines.Err())
	// Output:
	// <nil>
	// the last line
	// connection lost
}

func ExampleLimitedChannel_SendBatch() {
	numbers, err := channel.Bounded[int](10)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(numbers.SendBatch(context.Background(), []int{1, 2, 3}))
	numbers.Close()
	fmt.Println(numbers.SendBatch(context.Background(), []int{4}))
	// Output:
	// 3 <nil>
	// 0 channel: closed
}
