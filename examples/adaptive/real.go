package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/burn"
)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// load loads a server of net/http.
func load(ctx context.Context, w io.Writer, s settings) error {
	capacity := 0.0
	fmt.Fprintf(w, "%-9s %-10s %8s %8s %8s %8s %8s %8s\n", "limit", "load", "asked/s", "good/s", "late/s", "refused/s", "p50", "p99")
	for _, limited := range []bool{true, false} {
		name := map[bool]string{true: "gradient", false: "none"}[limited]
		for _, times := range []float64{1, 3} {
			server, err := serve(ctx, limited, s.work)
			if err != nil {
				return err
			}
			if capacity == 0 {
				capacity = server.capacity(ctx, s.took/3)
			}
			r := server.load(ctx, times*capacity, s.took)
			server.close()
			if err := ctx.Err(); err != nil {
				return err
			}
			fmt.Fprintf(w, "%-9s %-10s %8.0f %8.0f %8.0f %8.0f %8v %8v\n", name, fmt.Sprintf("%.0f x", times), times*capacity,
				float64(r.good)/s.took.Seconds(), float64(r.late)/s.took.Seconds(), float64(r.refused)/s.took.Seconds(),
				quantile(r.latencies, 0.5), quantile(r.latencies, 0.99))
		}
	}
	return nil
}

// server is one of net/http, with clients.
type server struct {
	http.Server
	url    string
	client *http.Client
	work   time.Duration
	limit  core.Limiter
}

func serve(ctx context.Context, limited bool, work time.Duration) (*server, error) {
	s := &server{work: work, limit: core.Unlimited()}
	if limited {
		l, err := adaptive.New(adaptive.Options{Initial: 2 * runtime.GOMAXPROCS(0), QueueLimit: 8 * runtime.GOMAXPROCS(0)})
		if err != nil {
			return nil, err
		}
		s.limit = l
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + listener.Addr().String()
	s.Handler = http.HandlerFunc(s.answer)
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	go func() { _ = s.Serve(listener) }()
	return s, nil
}

func (s *server) close() {
	s.client.CloseIdleConnections()
	_ = s.Close()
}

// answer keeps a processor busy under a lease.
func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	lease, err := s.limit.Acquire(r.Context(), 1)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer lease.Release()
	burn.CPU(s.work)
}

// capacity returns how many requests a second the server answers if twice as many clients as
// there are processors ask again and again.
func (s *server) capacity(ctx context.Context, took time.Duration) float64 {
	burn.CPU(s.work)
	ctx, cancel := context.WithTimeout(ctx, took)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	good := 0
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for ctx.Err() == nil {
				if status, _ := s.ask(ctx); status == http.StatusOK {
					mu.Lock()
					good++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return float64(good) / took.Seconds()
}

// ask asks once.
func (s *server) ask(ctx context.Context) (status int, took time.Duration) {
	begin := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return 0, 0
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, time.Since(begin)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, time.Since(begin)
}

// outcome is what became of the requests.
type outcome struct {
	good, late, refused int
	latencies           []time.Duration // of those that were answered in time
}

// load asks at a steady rate, whether answers come or not.
func (s *server) load(ctx context.Context, rate float64, took time.Duration) outcome {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
		o  outcome
	)
	ask := func() {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		status, took := s.ask(ctx)
		mu.Lock()
		defer mu.Unlock()
		switch status {
		case http.StatusOK:
			o.good++
			o.latencies = append(o.latencies, took)
		case http.StatusServiceUnavailable:
			o.refused++
		default:
			o.late++
		}
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	begin := time.Now()
	for asked := 0; ctx.Err() == nil; <-ticker.C {
		since := time.Since(begin)
		for ; float64(asked) < rate*min(since, took).Seconds(); asked++ {
			wg.Go(ask)
		}
		if since >= took {
			break
		}
	}
	wg.Wait()
	return o
}
