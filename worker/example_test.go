package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// pool returns a pool that runs that many tasks at a time.
func pool(tasks, queue int) *worker.Pool {
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: tasks})
	if err != nil {
		panic(err)
	}
	p, err := worker.New(worker.Options{Limiter: limiter, Queue: queue})
	if err != nil {
		panic(err)
	}
	return p
}

// At most two tasks at a time, and no more than a hundred starts per second.
func Example() {
	concurrent := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 2}))
	perSecond := core.Must(core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: 10 * time.Millisecond,
	}))
	both := core.Must(core.Chain(concurrent, perSecond))
	p := core.Must(worker.New(worker.Options{Limiter: both, Queue: 10}))
	ctx := context.Background()
	for i := range 5 {
		err := p.Submit(ctx, func(context.Context) error {
			if i == 3 {
				return errors.New("task 3 failed")
			}
			return nil
		})
		if err != nil {
			fmt.Println("not accepted:", err)
		}
	}
	fmt.Println(p.Wait(ctx))
	fmt.Println(p.Statistics())
	fmt.Println(p.Close(ctx))
	// Output:
	// task 3 failed
	// 0 running, 0 queued, 5 done, 1 failed, 0 panicked
	// <nil>
}

func ExamplePool_Submit() {
	p := pool(4, 0)
	ctx := context.Background()
	squares := make([]int, 5)
	for i := range squares {
		// Waits while four tasks run.
		if err := p.Submit(ctx, func(context.Context) error {
			squares[i] = i * i
			return nil
		}); err != nil {
			fmt.Println("not accepted:", err)
		}
	}
	if err := p.Wait(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(squares)
	// Output: [0 1 4 9 16]
}

func ExamplePool_SubmitN() {
	p := pool(4, 0)
	ctx := context.Background()
	heavy := func(context.Context) error { return nil }
	fmt.Println(p.SubmitN(ctx, 3, heavy)) // as long as it runs, one lighter task may run beside it
	fmt.Println(p.SubmitN(ctx, 5, heavy))
	fmt.Println(p.Wait(ctx))
	// Output:
	// <nil>
	// core: 5 permits are more than the limit of 4
	// <nil>
}

func ExamplePool_TrySubmit() {
	p := pool(1, 1)
	started := make(chan struct{})
	task := func(context.Context) error {
		<-started
		return nil
	}
	fmt.Println(p.TrySubmit(task)) // runs
	fmt.Println(p.TrySubmit(task)) // is queued
	fmt.Println(p.TrySubmit(task))
	close(started)
	fmt.Println(p.Wait(context.Background()))
	// Output:
	// <nil>
	// <nil>
	// core: rejected 1 permit: queue limit reached (queue is full)
	// <nil>
}

func ExamplePool_Wait() {
	p := pool(1, 10)
	ctx := context.Background()
	tasks := []worker.Task{
		func(context.Context) error { return nil },
		func(context.Context) error { return errors.New("disk full") },
		func(context.Context) error { panic("index out of range") },
	}
	for _, task := range tasks {
		if err := p.Submit(ctx, task); err != nil {
			fmt.Println("not accepted:", err)
		}
	}
	err := p.Wait(ctx)
	fmt.Println(err)
	var panicked *worker.PanicError
	fmt.Println(errors.As(err, &panicked), len(panicked.Stack) > 0)
	// Output:
	// disk full
	// worker: task panicked: index out of range
	// true true
}

// Shut down as a server does: first let tasks end by themselves, then cancel them.
func ExamplePool_Close() {
	p := pool(1, 10)
	err := p.Submit(context.Background(), func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println(err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	fmt.Println(p.Close(ctx))
	fmt.Println(p.Wait(context.Background()))
	fmt.Println(p.TrySubmit(func(context.Context) error { return nil }))
	// Output:
	// <nil>
	// worker: closed with 1 running and 0 queued tasks canceled: context deadline exceeded
	// worker: closed
	// worker: closed
}

func ExampleDo() {
	p := pool(2, 0)
	length, err := worker.Do(context.Background(), p, func(context.Context) (int, error) {
		return len("measured under a lease"), nil
	})
	fmt.Println(length, err)
	// Output: 22 <nil>
}

func ExampleMap() {
	p := pool(2, 0)
	words := []string{"one", "", "three"}
	for length, err := range worker.Map(context.Background(), p, slices.Values(words),
		func(_ context.Context, word string) (int, error) {
			if word == "" {
				return 0, errors.New("no word")
			}
			return len(word), nil
		}) {
		fmt.Println(length, err)
	}
	// Output:
	// 3 <nil>
	// 0 no word
	// 5 <nil>
}

// As errgroup.WithContext: the first error ends the context of the others, Wait returns it,
// and nothing runs on. The pool can be shared by many groups, and limits them together.
func ExamplePool_Group() {
	p := pool(2, 0)
	group := p.Group(context.Background())
	group.Go(func(ctx context.Context) error {
		<-ctx.Done()
		fmt.Println("the other task sees:", context.Cause(ctx))
		return ctx.Err()
	})
	group.Go(func(context.Context) error { return errors.New("disk full") })
	fmt.Println("Wait:", group.Wait())
	// Output:
	// the other task sees: disk full
	// Wait: disk full
}

// A deadline of the caller leaves no request in flight: it reaches the tasks, and Wait waits
// for them.
func ExampleGroup_deadline() {
	p := pool(8, 0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	group := p.Group(ctx)
	for range 20 {
		group.Go(func(ctx context.Context) error {
			<-ctx.Done() // a request that takes long
			return ctx.Err()
		})
	}
	fmt.Println(group.Wait())
	fmt.Println(p.Statistics().Running, "running")
	// Output:
	// context deadline exceeded
	// 0 running
}
