package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// outcomes are what became of requests.
type outcomes struct {
	mu      sync.Mutex
	good    []time.Duration
	refused int
	late    int
}

// play sends requests at the load, as they come, and tells what became of them.
func (t test) play(ctx context.Context, c contender, load float64) (result, error) {
	s, closeServer, err := t.serve(c)
	if err != nil {
		return result{}, err
	}
	defer closeServer()
	client := s.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = 1000

	var o outcomes
	var sent sync.WaitGroup
	rate := load * t.capacity()
	begin := time.Now()
	n := 0
	for due := time.Duration(0); ; n++ {
		// Arrivals are independent of each other: a Poisson process.
		due += time.Duration(rand.ExpFloat64() / rate * float64(time.Second))
		if due > t.time {
			break
		}
		if err := sleep(ctx, due-time.Since(begin)); err != nil {
			sent.Wait()
			return result{}, err
		}
		sent.Go(func() { o.ask(ctx, client, s.URL, begin.Add(due), t.patience) })
	}
	sent.Wait()
	slices.Sort(o.good)
	seconds := t.time.Seconds()
	return result{
		limit: c.name, load: load, offered: float64(n) / seconds,
		good: float64(len(o.good)) / seconds, refused: float64(o.refused) / seconds, late: float64(o.late) / seconds,
		p50: quantile(o.good, 0.5), p99: quantile(o.good, 0.99),
	}, nil
}

// ask sends a request that was due then, and waits for as long as a client would have.
func (o *outcomes) ask(ctx context.Context, client *http.Client, url string, due time.Time, patience time.Duration) {
	ctx, cancel := context.WithDeadline(ctx, due.Add(patience))
	defer cancel()
	status := 0
	if r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil); err == nil {
		if response, err := client.Do(r); err == nil {
			status = response.StatusCode
			_ = response.Body.Close()
		}
	}
	took := time.Since(due)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case status == http.StatusServiceUnavailable:
		o.refused++
	case status == http.StatusNoContent && took <= patience:
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
