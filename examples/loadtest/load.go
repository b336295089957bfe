package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// An asker sends a request and returns the status of the response, or 0 if none arrived before ctx was done.
type asker func(ctx context.Context) int

// outcomes holds the results of requests.
type outcomes struct {
	mu       sync.Mutex
	offered  int
	good     []time.Duration
	rejected int
	late     int
}

// play sends requests at the given load and returns their results. Requests of the settling time do not count,
// nor do those that keep up the load while the last ones that count are waiting.
func (t test) play(ctx context.Context, ask asker, name string, load float64) (result, error) {
	var o outcomes
	var sent sync.WaitGroup
	random := rand.New(rand.NewPCG(1, 2))
	rate := load * t.capacity()
	start := time.Now()
	for due := time.Duration(0); ; {
		// Arrivals are independent of each other: a Poisson process.
		due += time.Duration(random.ExpFloat64() / rate * float64(time.Second))
		if due > t.settling+t.time+t.patience {
			break
		}
		if err := sleep(ctx, due-time.Since(start)); err != nil {
			sent.Wait()
			return result{}, err
		}
		sent.Go(func() {
			status, took := t.wait(ctx, ask, start.Add(due))
			if due > t.settling && due <= t.settling+t.time {
				o.add(t, status, took)
			}
		})
	}
	sent.Wait()
	slices.Sort(o.good)
	seconds := t.time.Seconds()
	return result{
		limit: name, load: load, offered: float64(o.offered) / seconds,
		good: float64(len(o.good)) / seconds, rejected: float64(o.rejected) / seconds, late: float64(o.late) / seconds,
		p50: quantile(o.good, 0.5), p99: quantile(o.good, 0.99),
	}, nil
}

// wait sends a request that was due at the given instant, and waits as long as its client would.
func (t test) wait(ctx context.Context, ask asker, due time.Time) (status int, took time.Duration) {
	ctx, cancel := context.WithDeadline(ctx, due.Add(t.patience))
	defer cancel()
	status = ask(ctx)
	return status, time.Since(due)
}

func (o *outcomes) add(t test, status int, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.offered++
	switch {
	case took >= t.patience:
		o.late++
	case status == http.StatusServiceUnavailable:
		o.rejected++
	case status == http.StatusNoContent:
		o.good = append(o.good, took)
	default:
		o.late++
	}
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
