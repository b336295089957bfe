package adaptive

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/burn"
)

const (
	computes = time.Millisecond       // what a request costs a processor
	patience = 100 * time.Millisecond // an answer that took longer is no good
	pause    = 20 * time.Millisecond  // of a caller that was refused
	callers  = 200                    // for each processor; without a limit each waits for all
)

// BenchmarkOverload asks a net/http server that computes, with far more callers than it can
// serve. An operation is a request; good/s are those answered in time, p99-ms is of all that
// were answered, and refused is a share of all.
func BenchmarkOverload(b *testing.B) {
	burn.CPU(0) // measures how much it has to do
	sidebyside.Each(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			l, err := adaptive.New(adaptive.Options{Initial: 10, QueueLimit: 10})
			if err != nil {
				b.Fatal(err)
			}
			overload(b, l)
			b.ReportMetric(float64(l.Limit()), "limit")
		}},
		sidebyside.Impl{Name: "no-limit", Run: func(b *testing.B) { overload(b, core.Unlimited()) }},
	)
}

func overload(b *testing.B, l core.Limiter) {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, err := l.Acquire(r.Context(), 1)
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer lease.Release()
		runtime.Gosched() // requests that came meanwhile meet the limiter before this one computes
		burn.CPU(computes)
	}))
	defer server.Close()
	n := callers * runtime.GOMAXPROCS(0)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	defer client.CloseIdleConnections()

	var mu sync.Mutex
	var answered []time.Duration
	refused := 0
	sidebyside.Spread(b, n, func(operations int) {
		for range operations {
			start := time.Now()
			status := ask(b, client, server.URL)
			took := time.Since(start)
			mu.Lock()
			if status == http.StatusOK {
				answered = append(answered, took)
			} else {
				refused++
			}
			mu.Unlock()
			if status != http.StatusOK {
				time.Sleep(pause)
			}
		}
	})
	if len(answered) == 0 {
		b.Fatal("nothing was answered")
	}
	slices.Sort(answered)
	good, _ := slices.BinarySearch(answered, patience+1)
	b.ReportMetric(float64(good)/b.Elapsed().Seconds(), "good/s")
	b.ReportMetric(answered[len(answered)*99/100].Seconds()*1e3, "p99-ms")
	b.ReportMetric(float64(refused)/float64(b.N), "refused")
}

// ask asks once and returns the status; 0, after an error, if there was no answer.
func ask(b *testing.B, client *http.Client, url string) int {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		b.Error(err)
		return 0
	}
	response, err := client.Do(request)
	if err != nil {
		b.Error(err)
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		b.Error(err)
	}
	return response.StatusCode
}
