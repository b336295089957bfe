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
		start := time.Now()
		second, err := dial(t.Context(), "tcp", "anywhere")
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(start))
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
	_, err = ioreader.NewDialer(nil, ioreader.DialerOptions{})
	require.ErrorContains(t, err, "nil DialFunc")
	t.Run("with the rejection of Conns", func(t *testing.T) {
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
			start := time.Now()
			_, err := dial(ctx, "tcp", "anywhere")
			require.Equal(t, context.DeadlineExceeded, err)
			require.Equal(t, time.Second, time.Since(start))
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
