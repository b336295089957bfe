package ioreader_test

import (
	"context"
	"errors"
	"io"
	"net"
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
		places := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
		dial, peers := dialing(t, ioreader.DialerOptions{Conns: places})
		first, err := dial(t.Context(), "tcp", "anywhere")
		require.NoError(t, err)
		require.Zero(t, places.Available())
		go func() {
			time.Sleep(time.Minute)
			first.Close()
			first.Close()
		}()
		start := time.Now()
		second, err := dial(t.Context(), "tcp", "anywhere")
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(start))
		require.Len(t, peers, 2, "it waits before it dials")
		require.Zero(t, places.Statistics().Rejected, "it waits whatever QueueLimit is")
		require.NoError(t, second.Close())
		require.Equal(t, 1, places.Available())
	})
}

func TestADialThatFailsHoldsNothing(t *testing.T) {
	_, err := ioreader.NewDialer(nil, ioreader.DialerOptions{})
	require.ErrorContains(t, err, "nil DialFunc")
	full := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "places", PermitLimit: 1}))
	require.True(t, full.TryAcquire(1).Acquired())
	dial, peers := dialing(t, ioreader.DialerOptions{Conns: strange{full}})
	_, err = dial(t.Context(), "tcp", "anywhere")
	var rejected *core.RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Equal(t, "places", rejected.Limiter)
	require.Empty(t, peers, "it did not dial")

	cause := errors.New("cause")
	for name, c := range map[string]struct {
		dial    ioreader.DialFunc
		perConn func(net.Conn) (ioreader.ConnOptions, error)
	}{
		"dial fails":        {dial: func(context.Context, string, string) (net.Conn, error) { return nil, cause }},
		"dial returns none": {dial: func(context.Context, string, string) (net.Conn, error) { return nil, nil }},
		"PerConn fails":     {perConn: func(net.Conn) (ioreader.ConnOptions, error) { return ioreader.ConnOptions{}, cause }},
		"PerConn panics":    {perConn: func(net.Conn) (ioreader.ConnOptions, error) { panic(cause) }},
	} {
		t.Run(name, func(t *testing.T) {
			places := semaphore(t, 1)
			o := ioreader.DialerOptions{Conns: places, PerConn: c.perConn}
			dial, peers := dialing(t, o)
			if c.dial != nil {
				dial = core.Must(ioreader.NewDialer(c.dial, o))
			}
			func() {
				defer func() {
					if v := recover(); v != nil {
						require.Equal(t, cause, v)
					}
				}()
				conn, err := dial(t.Context(), "tcp", "anywhere")
				require.Error(t, err)
				require.Nil(t, conn)
			}()
			require.Equal(t, 1, places.Available())
			if c.perConn != nil {
				_, err := (<-peers).Read(make([]byte, 1))
				require.Equal(t, io.EOF, err, "it was closed")
			}
		})
	}
}

// A connection that waits for the limiter of PerConn holds no permits of the limiter that all share.
func TestAConnectionThatWaitsForItsOwnLimiterHoldsNoneOfTheShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := semaphore(t, 100)
		dial, peers := dialing(t, ioreader.DialerOptions{Write: shared, PerConn: func(net.Conn) (ioreader.ConnOptions, error) {
			return ioreader.ConnOptions{Write: bucketOf(t, 1, 1, time.Hour)}, nil
		}})
		c := core.Must(dial(t.Context(), "tcp", "anywhere"))
		go func() { _, _ = io.Copy(io.Discard, <-peers) }()
		written := writing(c, []byte("ab"))
		synctest.Wait()
		require.Equal(t, 100, shared.Available())
		require.NoError(t, c.Close())
		require.Equal(t, 1, (<-written).n)
	})
}
