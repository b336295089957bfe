package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
)

// measured is how long a rate is watched.
func measured() time.Duration {
	if sidebyside.Smoke() {
		return 20 * time.Millisecond
	}
	return 2 * time.Second
}

// BenchmarkRateKept has 100 callers wait for permits one by one, in real time: of-rate is how
// many got one, in per cent of the rate.
func BenchmarkRateKept(b *testing.B) {
	for _, r := range []struct{ perSecond, burst int }{{1000, 1}, {5000, 1}, {50_000, 10}} {
		b.Run(fmt.Sprintf("rate=%d/burst=%d", r.perSecond, r.burst), func(b *testing.B) {
			sidebyside.Each(b,
				sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
					l, err := core.NewTokenBucket(core.PerSecond(r.perSecond, r.burst))
					if err != nil {
						b.Fatal(err)
					}
					keepRate(b, r.perSecond, func(ctx context.Context) error {
						_, err := l.Acquire(ctx, 1)
						return err
					})
				}},
				sidebyside.Impl{Name: "xtime-rate", Run: func(b *testing.B) {
					l := rate.NewLimiter(rate.Limit(r.perSecond), r.burst)
					keepRate(b, r.perSecond, l.Wait)
				}},
			)
		})
	}
}

func keepRate(b *testing.B, perSecond int, wait func(context.Context) error) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var grants atomic.Int64
	var callers sync.WaitGroup
	begun := time.Now()
	for range 100 {
		callers.Go(func() {
			for wait(ctx) == nil {
				grants.Add(1)
			}
		})
	}
	time.Sleep(measured())
	got, elapsed := grants.Load(), time.Since(begun)
	cancel()
	callers.Wait()
	for b.Loop() { // forgets metrics
	}
	b.ReportMetric(100*float64(got)/(float64(perSecond)*elapsed.Seconds()), "of-rate-%")
	b.ReportMetric(0, "ns/op")
}

// crowds are limiters of a thousand permits a second, by how those who wait for them take
// what comes.
func crowds(b *testing.B) []crowd {
	b.Helper()
	const unbounded = 1 << 30
	var errs []error
	add := func(name string, permits int, l core.Limiter, err error) crowd {
		errs = append(errs, err)
		return crowd{name, permits, l}
	}
	smooth, err := core.NewTokenBucket(core.PerSecond(1000, 1))
	all := []crowd{add("smooth", 1, smooth, err)}
	for _, permits := range []int{1, 2} {
		w, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 100, Window: 100 * time.Millisecond, QueueLimit: unbounded})
		all = append(all, add("window", permits, w, err))
		l, err := core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: 100, TokensPerPeriod: 100, ReplenishmentPeriod: 100 * time.Millisecond, QueueLimit: unbounded,
		})
		all = append(all, add("lumpy", permits, l, err))
	}
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	return all
}

type crowd struct {
	name    string
	permits int // of each request
	l       core.Limiter
}

// BenchmarkRateKeptInACrowd has 20,000 callers with deadlines wait, of whom a thousand a
// second give up. of-rate is the number of grants, in per cent of the rate; refused-ns is what it
// costs to be refused because the deadline comes too soon.
func BenchmarkRateKeptInACrowd(b *testing.B) {
	for _, c := range crowds(b) {
		b.Run(fmt.Sprintf("%s/permits=%d", c.name, c.permits), func(b *testing.B) {
			sidebyside.Each(b, sidebyside.Impl{Name: "sluice", Run: c.run})
		})
	}
}

func (c crowd) run(b *testing.B) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	n := sidebyside.Size(20_000)
	quit := make([]atomic.Pointer[context.CancelFunc], n)
	var granted atomic.Int64
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			for ctx.Err() == nil {
				mine, stop := context.WithTimeout(ctx, time.Hour)
				quit[i].Store(&stop)
				if _, err := c.l.Acquire(mine, c.permits); err == nil {
					granted.Add(int64(c.permits))
				}
				stop()
			}
		})
	}
	for c.l.(core.Reporter).Statistics().Queued < n*c.permits*9/10 {
		time.Sleep(time.Millisecond)
	}
	callers.Go(func() {
		ticks := time.NewTicker(10 * time.Millisecond)
		defer ticks.Stop()
		for ctx.Err() == nil {
			<-ticks.C
			for range 10 {
				if stop := quit[rand.IntN(n)].Load(); stop != nil {
					(*stop)()
				}
			}
		}
	})
	before, begun := granted.Load(), time.Now()
	refused, refusals := time.Duration(0), 0
	for time.Since(begun) < measured() {
		hopeless, stop := context.WithTimeout(ctx, 10*time.Millisecond)
		start := time.Now()
		_, err := c.l.Acquire(hopeless, c.permits)
		refused += time.Since(start)
		refusals++
		stop()
		if !errors.Is(err, context.DeadlineExceeded) {
			b.Error(err)
		}
		time.Sleep(time.Millisecond)
	}
	got, elapsed := granted.Load()-before, time.Since(begun)
	cancel()
	callers.Wait()
	for b.Loop() { // forgets metrics
	}
	b.ReportMetric(100*float64(got)/(1000*elapsed.Seconds()), "of-rate-%")
	b.ReportMetric(float64(refused.Nanoseconds())/float64(refusals), "refused-ns")
	b.ReportMetric(0, "ns/op")
}
