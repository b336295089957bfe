package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
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
	b, err := start(ctx, limit, s.work)
	if err != nil {
		return err
	}
	defer b.stop()
	capacity := b.capacity(ctx, s.took/3)
	atCapacity := 0
	for _, times := range []float64{1, 3} {
		if _, err := b.limits(ctx); err != nil {
			return err
		}
		o := b.load(ctx, times*capacity, s.took)
		l, err := b.limits(ctx)
		if err != nil {
			return err
		}
		rate := func(n int) float64 { return float64(n) / s.took.Seconds() }
		fmt.Fprintf(w, "%-9s %-5s %8.0f %8.0f %8.0f %9.0f %9v %9v %6.1f %6d\n", limit, fmt.Sprintf("%.0f x", times), times*capacity,
			rate(len(o.good)), rate(o.late), rate(o.refused), quantile(o.good, 0.5), quantile(o.good, 0.99), l.Mean, l.Last)
		if times == 1 {
			atCapacity = len(o.good)
			continue
		}
		share := float64(len(o.good)) / float64(max(atCapacity, 1))
		fmt.Fprintf(w, "%-9s %.0f %% of the goodput at 1 x\n", limit, 100*share)
	}
	return ctx.Err()
}

// backend is a server in a process of its own, and its clients.
type backend struct {
	command *exec.Cmd
	input   io.Closer
	url     string
	client  *http.Client
}

func start(ctx context.Context, limit string, work time.Duration) (*backend, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &backend{command: exec.CommandContext(ctx, self, "-serve", limit, "-work", work.String())}
	b.command.Stderr = os.Stderr
	if b.input, err = b.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := b.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.command.Start(); err != nil {
		return nil, err
	}
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		b.stop()
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	b.url = "http://" + strings.TrimSpace(address)
	b.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10_000}}
	return b, nil
}

func (b *backend) stop() {
	_ = b.input.Close()
	_ = b.command.Wait()
}

// limits asks what the limit was since the last time.
func (b *backend) limits(ctx context.Context) (l limits, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/limit", http.NoBody)
	if err != nil {
		return l, err
	}
	response, err := b.client.Do(request)
	if err != nil {
		return l, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&l)
	return l, err
}

// capacity returns how many requests a second the server answers if twice as many clients as
// there are processors ask again and again.
func (b *backend) capacity(ctx context.Context, took time.Duration) float64 {
	begin := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	good := 0
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for time.Since(begin) < took {
				if b.ask(ctx) == http.StatusOK {
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

// ask asks once and returns the status; 0: there was no answer.
func (b *backend) ask(ctx context.Context) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url, http.NoBody)
	if err != nil {
		return 0
	}
	response, err := b.client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}

// outcome is what became of the requests.
type outcome struct {
	good          []time.Duration // how long each took that was answered in time
	late, refused int
}

// load asks at a steady rate, whether answers come or not. What a request takes counts from
// the instant that it was due, also if this process was late to ask.
func (b *backend) load(ctx context.Context, rate float64, took time.Duration) outcome {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
		o  outcome
	)
	ask := func(due time.Time) {
		ctx, cancel := context.WithDeadline(ctx, due.Add(impatient))
		defer cancel()
		status := b.ask(ctx)
		took := time.Since(due)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case status == http.StatusServiceUnavailable:
			o.refused++
		case status != http.StatusOK || took > impatient:
			o.late++
		default:
			o.good = append(o.good, took)
		}
	}
	begin := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := range int(rate * took.Seconds()) {
		due := begin.Add(seconds(float64(n) / rate))
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		wg.Go(func() { ask(due) })
	}
	wg.Wait()
	return o
}
