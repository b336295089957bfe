package program_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/examples/internal/program"
)

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	fails  chan error
}

func newPipes() *pipes {
	return &pipes{make(chan net.Conn), make(chan struct{}), make(chan error)}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case err := <-p.fails:
		return nil, err
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// get sends a request, and returns the status; 0: the connection was closed.
func (p *pipes) get() int {
	near, far := net.Pipe()
	defer near.Close()
	p.conns <- far
	if _, err := near.Write([]byte("GET / HTTP/1.1\r\nHost: host\r\nConnection: close\r\n\r\n")); err != nil {
		return 0
	}
	r, err := http.ReadResponse(bufio.NewReader(near), nil)
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	return r.StatusCode
}

func TestServe(t *testing.T) {
	own := errors.New("own")
	for _, c := range []struct {
		name   string
		lasts  time.Duration // of a request that is in flight at shutdown
		status int           // of its answer
		took   time.Duration
		err    error
	}{
		{"done", time.Second, http.StatusNoContent, time.Second, nil},
		{"failed", time.Second, http.StatusNoContent, time.Second, own},
		{"a request that does not end", time.Hour, 0, 2 * time.Second, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes()
				s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					timer := time.NewTimer(c.lasts)
					defer timer.Stop()
					select {
					case <-timer.C:
						w.WriteHeader(http.StatusNoContent)
					case <-r.Context().Done():
					}
				})}
				status := make(chan int, 1)
				start := time.Now()
				err := program.Serve(t.Context(), s, p, func(ctx context.Context) error {
					go func() { status <- p.get() }()
					synctest.Wait()
					require.NoError(t, ctx.Err())
					return c.err
				})
				require.Equal(t, c.err, err)
				require.GreaterOrEqual(t, time.Since(start), c.took)
				require.Less(t, time.Since(start), c.took+time.Second) // Shutdown looks now and then
				require.Equal(t, c.status, <-status)
			})
		})
	}
}

// A server that fails ends what runs meanwhile, and says why.
func TestServeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		p := newPipes()
		err := program.Serve(t.Context(), new(http.Server), p, func(ctx context.Context) error {
			p.fails <- broken
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, context.Canceled, "the reason alone")
	})
}
