package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/backend"
	"github.com/sluice-go/sluice/examples/internal/program"
	"github.com/sluice-go/sluice/internal/burn"
)

// What the server may shed by.
const (
	nothing   = "none"
	cpu       = "cpu"
	scheduler = "scheduler"
	counted   = "counted"
	neighbour = "neighbour" // not a server: it only computes
)

// limiter returns the limiter that sheds by what is named.
func (s settings) limiter(by string) (core.Limiter, error) {
	o := adaptive.ShedOptions{Name: by, Every: s.every}
	switch by {
	case nothing:
		return core.Unlimited(), nil
	case cpu, counted:
		o.Probe, o.Above = adaptive.CPU(), s.busy
	case scheduler:
		o.Probe, o.Above = adaptive.SchedulerLatency(0.9), s.wait.Seconds()
	default:
		return nil, program.Usage("%q, want %s, %s, %s or %s", by, nothing, cpu, scheduler, counted)
	}
	shed, err := adaptive.NewShed(o)
	if err != nil || by != counted {
		return shed, err
	}
	limit, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: s.atOnce})
	if err != nil {
		return nil, err
	}
	return core.Chain(shed, limit)
}

// serve is the process of the server.
func (s settings) serve(ctx context.Context, streams program.Streams) error {
	runtime.GOMAXPROCS(s.processors)
	limiter, err := s.limiter(s.be)
	if err != nil {
		return err
	}
	burn.CPU(s.work)
	used := adaptive.CPU()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		lease := limiter.TryAcquire(1)
		defer lease.Release()
		if err := lease.Err(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		runtime.Gosched() // those who came meanwhile are decided on before this one computes
		burn.CPU(s.work)
	})
	mux.HandleFunc("GET /used", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(used())
	})
	return backend.Serve(ctx, streams.In, streams.Out, mux)
}

// compute keeps a processor busy until the input ends.
func compute(streams program.Streams) error {
	ended := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, streams.In)
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			return err
		default:
			burn.CPU(time.Millisecond)
		}
	}
}
