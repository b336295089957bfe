package backend_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/examples/internal/backend"
)

// TestMain is the server, too: Start starts the program that calls it.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "end" {
		return
	}
	goleak.VerifyTestMain(m)
}

// serve answers with 200, 503 and 404 in turn.
func serve() error {
	var asked atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader([]int{http.StatusOK, http.StatusServiceUnavailable, http.StatusNotFound}[(asked.Add(1)-1)%3])
	})
	mux.HandleFunc("GET /asked", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, asked.Load()) })
	return backend.Serve(context.Background(), os.Stdin, os.Stdout, mux)
}

func TestLoad(t *testing.T) {
	b, err := backend.Start(t.Context(), "serve")
	require.NoError(t, err)
	defer b.Stop()
	assert.Equal(t, http.StatusOK, b.Ask(t.Context()))
	assert.Equal(t, http.StatusServiceUnavailable, b.Ask(t.Context()))
	assert.Equal(t, http.StatusNotFound, b.Ask(t.Context()))

	o := b.Load(t.Context(), 3000, 20*time.Millisecond, 0)
	assert.Equal(t, []int{20, 20, 20}, []int{len(o.Took), o.Refused, o.Failed})
	o = b.Load(t.Context(), 3000, 20*time.Millisecond, time.Nanosecond)
	assert.Equal(t, []int{0, 60}, []int{len(o.Took), o.Failed}, "no request times out")
	var asked int
	require.NoError(t, b.Get(t.Context(), "/asked", &asked))
	assert.GreaterOrEqual(t, asked, 63)

	done, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Zero(t, b.Load(done, 1, time.Hour, 0))
	assert.Zero(t, b.Ask(done))
	assert.Error(t, b.Get(done, "/asked", &asked))
}

func TestServerThatDoesNotStart(t *testing.T) {
	_, err := backend.Start(t.Context(), "end")
	assert.ErrorContains(t, err, "the server did not start")
}
