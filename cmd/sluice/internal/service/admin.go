package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

const (
	headerTimeout = 10 * time.Second // for the header of a request to come
	bodyTimeout   = time.Minute      // for all of it
)

// Metrics returns a registry with the metrics of the Go runtime and of the process.
func Metrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// NewAdmin returns a handler with the health and the metrics of a service.
func NewAdmin(draining *atomic.Bool, metrics *prometheus.Registry) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if draining.Load() {
			http.Error(w, "ending", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// ListenAdmin serves h on an address, unless that is "". name is the flag or key that the address comes from.
func ListenAdmin(ctx context.Context, name, address string, h http.Handler, say func(string, ...any), failed chan<- error) (io.Closer, error) {
	if address == "" {
		return io.NopCloser(nil), nil
	}
	l, err := cli.Listen(ctx, name, address)
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	say("admin on %s", l.Addr())
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	return s, nil
}

// WriteJSON responds with a value.
func WriteJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // an error means that the client has disconnected
}

// Resets describes a reset of n limiters for people: those of a key, or of all keys if key is empty. It does
// not contain the key, which may be a secret.
func Resets(n int, key []string) string {
	of, plural := "all keys", "s"
	if len(key) > 0 {
		of = "one key"
	}
	if n == 1 {
		plural = ""
	}
	return fmt.Sprintf("reset %d limiter%s (%s)", n, plural, of)
}

// ResetKey is like Key, but for a request to reset limits, which has no body. Without values, the request is for all
// keys.
func ResetKey(r *http.Request) ([]string, error) {
	key, err := Key(r)
	if n, _ := r.Body.Read(make([]byte, 1)); n > 0 {
		err = errors.Join(err, errors.New("want the key in the URL, as in ?key=192.0.2.1, and no body"))
	}
	return key, err
}

// Key returns the key that a request names, as in ?key=192.0.2.1, with one value per part of the key. It returns an error for
// any other parameter, because a mistake there would read or reset all keys.
func Key(r *http.Request) ([]string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	for name := range query {
		if name != "key" {
			err = errors.Join(err, fmt.Errorf("unknown parameter %q, want key", name))
		}
	}
	return query["key"], err
}
