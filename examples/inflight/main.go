// Inflight limits the requests in flight by hand, with a limiter and nothing else of Sluice: some
// run, some wait in a queue, and the rest are rejected.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/program"
)

const text = `inflight sends more requests at once than a service takes

usage: inflight [flags]`

func main() { program.Main(text, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	limit := flags.Int("limit", 100, "requests under way at once")
	queue := flags.Int("queue", 50, "requests that may wait")
	requests := flags.Int("requests", 200, "requests that come at once")
	work := flags.Duration("work", 20*time.Millisecond, "how long one takes")
	return func(ctx context.Context, _ []string) error {
		limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
			Name: "in flight", PermitLimit: *limit, QueueLimit: *queue,
		})
		if err != nil {
			return program.Usage("%w", err)
		}
		var served, refused, underWay, most atomic.Int64
		var refusal atomic.Pointer[core.RejectedError]
		var wg sync.WaitGroup
		for range *requests {
			wg.Go(func() {
				lease, err := limiter.Acquire(ctx, 1)
				if err != nil {
					if rejected := new(core.RejectedError); errors.As(err, &rejected) {
						refusal.Store(rejected)
					}
					refused.Add(1)
					return
				}
				defer lease.Release()
				raise(&most, underWay.Add(1))
				defer underWay.Add(-1)
				handle(ctx, *work)
				served.Add(1)
			})
		}
		wg.Wait()
		_, _ = fmt.Fprintf(s.Out, "%d served, %d refused, at most %d under way\n", served.Load(), refused.Load(), most.Load())
		if err := refusal.Load(); err != nil {
			_, _ = fmt.Fprintln(s.Out, err)
		}
		_, _ = fmt.Fprintln(s.Out, limiter)
		return ctx.Err()
	}
}

// handle is what a request does.
func handle(ctx context.Context, work time.Duration) {
	timer := time.NewTimer(work)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// raise sets v to n if that is more.
func raise(v *atomic.Int64, n int64) {
	for old := v.Load(); n > old && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}
