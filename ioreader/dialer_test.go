package ioreader_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// dialing returns a function that dials into memory, and all that the other ends are.
func dialing(tb testing.TB, o ioreader.DialerOptions) (ioreader.DialFunc, <-chan net.Conn) {
	tb.Helper()
	peers := make(chan net.Conn, 100)
	dial, err := ioreader.NewDialer(func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		peers <- b
		return a, nil
	}, o)
	require.NoError(tb, err)
	return dial, peers
}

func TestDialerLimitsHowManyAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := semaphore(t, 1)
		dial, peers := dialing(t, ioreader.DialerOptions{Conns: places})
		first, err := dial(t.Context(), "tcp", "anywhere")
		require.NoError(t, err)
		require.Zero(t, places.Available())
		go func() {
			time.Sleep(time.Minute)
			first.Close()
			first.Close()
		}()
		begun := time.Now()
		second, err := dial(t.Context(), "tcp", "anywhere")
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(begun))
		require.Len(t, peers, 2, "it waits before it dials")
		require.NoError(t, second.Close())
		require.Equal(t, 1, places.Available())
	})
}

func TestADialEnds(t *testing.T) {
	cause := errors.New("cause")
	none, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "places", PermitLimit: 1})
	require.NoError(t, err)
	full := none.TryAcquire(1)
	defer full.Release()
	t.Run("with the refusal of Conns", func(t *testing.T) {
		dial, peers := dialing(t, ioreader.DialerOptions{Conns: strange{none}})
		c, err := dial(t.Context(), "tcp", "anywhere")
		var rejected *core.RejectedError
		require.ErrorAs(t, err, &rejected)
		require.Equal(t, "places", rejected.Limiter)
		require.Nil(t, c)
		require.Empty(t, peers)
	})
	t.Run("with a careless refusal", func(t *testing.T) {
		dial, _ := dialing(t, ioreader.DialerOptions{Conns: &limiterOf{refusals: 1, careless: true}})
		_, err := dial(t.Context(), "tcp", "anywhere")
		require.ErrorIs(t, err, core.ErrRejected)
	})
	t.Run("when its context does", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			places := semaphore(t, 1)
			require.True(t, places.TryAcquire(1).Acquired())
			dial, _ := dialing(t, ioreader.DialerOptions{Conns: places})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begun := time.Now()
			_, err := dial(ctx, "tcp", "anywhere")
			require.Equal(t, context.DeadlineExceeded, err)
			require.Equal(t, time.Second, time.Since(begun))
		})
	})
	t.Run("with PerConn's error", func(t *testing.T) {
		places := semaphore(t, 1)
		dial, peers := dialing(t, ioreader.DialerOptions{Conns: places, PerConn: func(net.Conn) (ioreader.ConnOptions, error) {
			return ioreader.ConnOptions{}, cause
		}})
		c, err := dial(t.Context(), "tcp", "anywhere")
		require.Equal(t, cause, err)
		require.Nil(t, c)
		require.Equal(t, 1, places.Available())
		_, err = (<-peers).Read(make([]byte, 1))
		require.Equal(t, io.EOF, err, "it was closed")
	})
	for name, under := range map[string]ioreader.DialFunc{
		"with the error underneath": func(context.Context, string, string) (net.Conn, error) { return nil, cause },
		"with nothing underneath":   func(context.Context, string, string) (net.Conn, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			places := semaphore(t, 1)
			dial, err := ioreader.NewDialer(under, ioreader.DialerOptions{Conns: places})
			require.NoError(t, err)
			c, err := dial(t.Context(), "tcp", "anywhere")
			require.Error(t, err)
			require.Nil(t, c)
			require.Equal(t, 1, places.Available())
		})
	}
	t.Run("in a panic", func(t *testing.T) {
		places := semaphore(t, 1)
		dial, peers := dialing(t, ioreader.DialerOptions{Conns: places, PerConn: func(net.Conn) (ioreader.ConnOptions, error) {
			panic("no")
		}})
		require.Panics(t, func() { _, _ = dial(t.Context(), "tcp", "anywhere") })
		require.Equal(t, 1, places.Available())
		_, err := (<-peers).Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
	})
}

func TestADialedConnectionHasItsBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, peers := dialing(t, ioreader.DialerOptions{
			Write: bucketOf(t, 10, 1, time.Millisecond),
			PerConn: func(net.Conn) (ioreader.ConnOptions, error) {
				return ioreader.ConnOptions{Write: bucketOf(t, 10, 1, 2*time.Millisecond)}, nil
			},
		})
		c, err := dial(t.Context(), "tcp", "anywhere")
		require.NoError(t, err)
		defer c.Close()
		drain(<-peers)
		begun := time.Now()
		_, err = c.Write(make([]byte, 110))
		require.NoError(t, err)
		require.Equal(t, 200*time.Millisecond, time.Since(begun))
	})
}

// TestIdleConnectionsHoldPermits: those of two hosts take all permits, and a third host waits for
// one unless the transport keeps fewer idle connections than there are permits.
func TestIdleConnectionsHoldPermits(t *testing.T) {
	for name, c := range map[string]struct {
		maxIdle int
		err     error
	}{
		"as many as they like": {0, context.DeadlineExceeded},
		"one less":             {3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHall()
				var atOnce sync.WaitGroup // so that each request has a connection of its own
				server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					atOnce.Done()
					atOnce.Wait()
				})}
				served := make(chan error, 1)
				go func() { served <- server.Serve(h) }()
				dial, err := ioreader.NewDialer(func(context.Context, string, string) (net.Conn, error) {
					return h.dial(), nil
				}, ioreader.DialerOptions{Conns: semaphore(t, 4)})
				require.NoError(t, err)
				transport := &http.Transport{DialContext: dial, MaxIdleConns: c.maxIdle}
				get := func(host string) error {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host, http.NoBody)
					if err != nil {
						return err
					}
					response, err := transport.RoundTrip(request)
					if err != nil {
						return err
					}
					return response.Body.Close()
				}
				got := make(chan error, 4)
				atOnce.Add(4)
				for _, host := range []string{"one", "one", "two", "two"} {
					go func() { got <- get(host) }()
				}
				for range 4 {
					require.NoError(t, <-got)
				}
				synctest.Wait()
				atOnce.Add(1)
				require.ErrorIs(t, get("three"), c.err)
				transport.CloseIdleConnections()
				require.NoError(t, server.Close())
				require.Equal(t, http.ErrServerClosed, <-served)
			})
		})
	}
}

func TestADialerIsForATransport(t *testing.T) {
	dial, err := ioreader.NewDialer((&net.Dialer{}).DialContext, ioreader.DialerOptions{})
	require.NoError(t, err)
	require.NotNil(t, (&http.Transport{DialContext: dial}).DialContext)
	_, err = ioreader.NewDialer(nil, ioreader.DialerOptions{})
	require.ErrorContains(t, err, "nil DialFunc")
}
