package pipe_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/pipe"
)

// inMemory is a listener whose connections are made by dial.
type inMemory struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *inMemory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server, err := pipe.Conns(pipe.Options{}, pipe.Options{})
	if err != nil {
		return nil, err
	}
	select {
	case l.accepted <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *inMemory) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *inMemory) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*inMemory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "pipe"} }

// TestStressHTTPClientsThatCancel: no handler is left in a Write.
func TestStressHTTPClientsThatCancel(t *testing.T) {
	t.Parallel()
	l := &inMemory{accepted: make(chan net.Conn), closed: make(chan struct{})}
	var handlers atomic.Int32
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		handlers.Add(1)
		defer handlers.Add(-1)
		for range 20 {
			if _, err := w.Write(make([]byte, 300<<10)); err != nil {
				return
			}
		}
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	transport := &http.Transport{DialContext: l.dial}
	client := &http.Client{Transport: transport}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(2_000_000)))
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://memory/", http.NoBody)
				if !assert.NoError(t, err) {
					cancel()
					return
				}
				if response, err := client.Do(request); err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
				cancel()
			}
		})
	}
	all.Wait()
	transport.CloseIdleConnections()
	require.Eventually(t, func() bool { return handlers.Load() == 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, server.Close())
	require.Equal(t, http.ErrServerClosed, <-served)
}
