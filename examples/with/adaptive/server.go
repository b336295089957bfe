package main

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/backend"
	"github.com/sluice-go/sluice/examples/internal/program"
	"github.com/sluice-go/sluice/internal/burn"
)

// The limits that a server may have.
const (
	gradient = "gradient"
	none     = "none"
)

// serve is the process of the server: it writes its address, and ends when its input does.
func serve(ctx context.Context, streams program.Streams, s settings) error {
	a := &answerer{work: s.work, limiter: core.Unlimited()}
	switch s.serve {
	case gradient:
		processors := runtime.GOMAXPROCS(0)
		l, err := adaptive.New(adaptive.Options{
			Min:        processors, // with fewer, one of them would be idle
			QueueLimit: 8 * processors,
			OnChange:   func(c adaptive.Change) { a.history.change(c.New) },
		})
		if err != nil {
			return err
		}
		a.limiter = l
		a.history.change(l.Limit())
	case none:
	default:
		return program.Usage("-serve %q, want %s or %s", s.serve, gradient, none)
	}
	burn.CPU(s.work)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", a.answer)
	mux.HandleFunc("GET /limit", a.tell)
	return backend.Serve(ctx, streams.In, streams.Out, mux)
}

// answerer answers the requests.
type answerer struct {
	work    time.Duration
	limiter core.Limiter
	history history
}

// answer keeps a processor busy under a lease.
func (a *answerer) answer(w http.ResponseWriter, r *http.Request) {
	lease, err := a.limiter.Acquire(r.Context(), 1)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer lease.Release()
	// Requests that came meanwhile are read, and queued or refused, before this one computes. Else
	// each that is read would run to its end first, as the scheduler leaves a goroutine its
	// processor for 10 ms, and the rest would wait for a processor where no limiter sees them.
	runtime.Gosched()
	burn.CPU(a.work)
}

// tell tells what the limit was since the last time, as JSON.
func (a *answerer) tell(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.history.take())
}

// limits is what a limit was over some time.
type limits struct {
	Mean float64
	Last int
}

// history follows a limit.
type history struct {
	mu    sync.Mutex
	last  int
	since time.Time
	sum   float64 // of limit times seconds, up to since
	begin time.Time
}

func (c *history) change(next int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.begin.IsZero() {
		c.begin, c.since = now, now
	}
	c.sum += float64(c.last) * now.Sub(c.since).Seconds()
	c.last, c.since = next, now
}

func (c *history) take() limits {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	c.change(last)
	c.mu.Lock()
	defer c.mu.Unlock()
	l := limits{Mean: c.sum / max(c.since.Sub(c.begin).Seconds(), 1e-9), Last: last}
	c.sum, c.begin = 0, c.since
	return l
}
