// Tenants floods a server with the requests of one tenant while others send a few, and compares how long
// each waits in the order of arrival and with fair shares.
package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/program"
)

const text = `tenants has one tenant flood a server that others use a little

usage: tenants [flags]`

func main() { program.Main(text, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	var t test
	flags.IntVar(&t.slots, "slots", 4, "requests that the server works on at a time")
	flags.DurationVar(&t.work, "work", 5*time.Millisecond, "how long one takes")
	flags.IntVar(&t.flood, "flood", 200, "requests that the greedy tenant always has in flight")
	flags.IntVar(&t.tenants, "tenants", 4, "other tenants")
	flags.DurationVar(&t.every, "every", 20*time.Millisecond, "the time from one request of another tenant to its next")
	flags.DurationVar(&t.time, "time", 2*time.Second, "how long the load lasts")
	return func(ctx context.Context, _ []string) error {
		if t.slots < 1 || t.flood < 0 || t.tenants < 0 || t.every <= 0 {
			return program.Usage("want at least 1 slot, and no number below 0")
		}
		if _, err := fmt.Fprintf(s.Out, "%-13s %-8s %9s %9s %9s\n", "order", "tenant", "requests", "p50", "p99"); err != nil {
			return err
		}
		for _, order := range []core.QueueOrder{core.OldestFirst, core.FairShare} {
			waits, err := t.run(ctx, order)
			if err != nil {
				return err
			}
			for i, w := range waits {
				name := "greedy"
				if i > 0 {
					name = fmt.Sprintf("other %d", i)
				}
				if _, err := fmt.Fprintf(s.Out, "%-13s %-8s %9d %9v %9v\n", order, name, len(w), quantile(w, 50), quantile(w, 99)); err != nil {
					return err
				}
			}
		}
		return ctx.Err()
	}
}

// test holds the load and the limit under test.
type test struct {
	slots, flood, tenants int
	work, every, time     time.Duration
}

// newLimiter returns the server's limiter. Its queue has room for all requests.
func newLimiter(slots int, order core.QueueOrder) (*core.ConcurrencyLimiter, error) {
	return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		PermitLimit: slots, QueueLimit: 1000, QueueOrder: order,
	})
}

// serve handles a request of a tenant and returns how long it waited. In a real server, clients must not be
// able to choose the tenant's name.
func serve(ctx context.Context, limiter core.Limiter, tenant string, work time.Duration) (waited time.Duration, err error) {
	start := time.Now()
	lease, err := limiter.Acquire(core.WithFlow(ctx, core.Flow{Key: tenant}), 1)
	if err != nil {
		return 0, err
	}
	defer lease.Release()
	waited = time.Since(start)
	time.Sleep(work)
	return waited, nil
}

// run returns how long the requests of the greedy tenant and of the others waited.
func (t test) run(ctx context.Context, order core.QueueOrder) (waits [][]time.Duration, err error) {
	limiter, err := newLimiter(t.slots, order)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.time)
	defer cancel()
	waits = make([][]time.Duration, 1+t.tenants)
	var mu sync.Mutex
	request := func(tenant int) {
		waited, err := serve(ctx, limiter, strconv.Itoa(tenant), t.work)
		if err == nil { // otherwise the load is over
			mu.Lock()
			waits[tenant] = append(waits[tenant], waited)
			mu.Unlock()
		}
	}
	var all sync.WaitGroup
	for range t.flood {
		all.Go(func() {
			for ctx.Err() == nil {
				request(0)
			}
		})
	}
	for tenant := 1; tenant <= t.tenants; tenant++ {
		all.Go(func() {
			tick := time.NewTicker(t.every)
			defer tick.Stop()
			for ctx.Err() == nil {
				all.Go(func() { request(tenant) })
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
	return waits, nil
}

// quantile returns the wait that the given percentage of the requests did not exceed.
func quantile(waits []time.Duration, percent int) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	slices.Sort(waits)
	return waits[(len(waits)*percent+99)/100-1].Round(100 * time.Microsecond)
}
