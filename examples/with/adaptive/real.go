package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-go/sluice/examples/internal/backend"
)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// impatient is when a client gives up.
const impatient = time.Second

// load loads a server with a limit, and one without.
func load(ctx context.Context, w io.Writer, s settings) error {
	fmt.Fprintf(w, "%-9s %-5s %8s %8s %8s %9s %9s %9s %6s %6s\n", "limit", "load", "asked/s", "good/s", "late/s", "refused/s", "p50", "p99", "mean", "last")
	for _, limit := range []string{gradient, none} {
		if err := loadOne(ctx, w, limit, s); err != nil {
			return err
		}
	}
	return nil
}

// loadOne loads a server as much as it can take, and then three times as much.
func loadOne(ctx context.Context, w io.Writer, limit string, s settings) error {
	b, err := backend.Start(ctx, "-serve", limit, "-work", s.work.String())
	if err != nil {
		return err
	}
	defer b.Stop()
	most := throughput(ctx, b, s.took/3)
	atCapacity := 0
	for _, times := range []float64{1, 3} {
		var l limits // since the last time
		if err := b.Get(ctx, "/limit", &l); err != nil {
			return err
		}
		o := b.Load(ctx, times*most, s.took, impatient)
		if err := b.Get(ctx, "/limit", &l); err != nil {
			return err
		}
		rate := func(n int) float64 { return float64(n) / s.took.Seconds() }
		fmt.Fprintf(w, "%-9s %-5s %8.0f %8.0f %8.0f %9.0f %9v %9v %6.1f %6d\n", limit, fmt.Sprintf("%.0f x", times), times*most,
			rate(len(o.Took)), rate(o.Failed), rate(o.Refused), quantile(o.Took, 0.5), quantile(o.Took, 0.99), l.Mean, l.Last)
		if times == 1 {
			atCapacity = len(o.Took)
			continue
		}
		share := float64(len(o.Took)) / float64(max(atCapacity, 1))
		fmt.Fprintf(w, "%-9s %.0f %% of the goodput at 1 x\n", limit, 100*share)
	}
	return ctx.Err()
}

// throughput returns how many requests a second the server answers if twice as many clients as
// there are processors ask again and again.
func throughput(ctx context.Context, b *backend.Backend, took time.Duration) float64 {
	begin := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	good := 0
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for time.Since(begin) < took {
				if b.Ask(ctx) == http.StatusOK {
					mu.Lock()
					good++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return float64(good) / time.Since(begin).Seconds()
}
