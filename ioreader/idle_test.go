package ioreader_test

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// readers returns the other ends of n connections that share a limiter and are read all the
// time, and the count of what passes.
func readers(t *testing.T, n int, l core.Limiter) ([]net.Conn, *atomic.Int64) {
	t.Helper()
	passed, peers := new(atomic.Int64), make([]net.Conn, n)
	for i := range peers {
		var c net.Conn
		c, peers[i] = conns(t, ioreader.ConnOptions{Read: l})
		go func() {
			p := make([]byte, 4096)
			for {
				n, err := c.Read(p)
				if err != nil {
					return
				}
				passed.Add(int64(n))
			}
		}()
	}
	return peers, passed
}

// sending has each of the peers send so many bytes, in pieces, and returns how each ended.
func sending(peers []net.Conn, bytes, piece int) <-chan error {
	done := make(chan error, len(peers))
	for _, c := range peers {
		go func() {
			var err error
			for left := bytes; left > 0 && err == nil; left -= piece {
				_, err = c.Write(make([]byte, min(left, piece)))
			}
			done <- err
		}()
	}
	return done
}

// TestIdleConnectionsHoldNothing: whatever a hundred connections have done before, at the
// instant at which data comes to all of them no more passes than the bucket alone allows.
func TestIdleConnectionsHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := perSecond(t, 100_000)
		peers, passed := readers(t, 100, rate)
		for range 3 {
			done := sending(peers, 1000, 50)
			for range peers {
				require.NoError(t, <-done)
			}
			time.Sleep(time.Second)
			require.Equal(t, 1460, rate.Available())
			passed.Store(0)
			start := time.Now()
			sent := sending(peers, 500, 50)
			synctest.Wait()
			require.Zero(t, time.Since(start))
			require.LessOrEqual(t, passed.Load(), int64(1460))
			// A connection may be ahead by one slice, which the limiter owes.
			for range 9 {
				time.Sleep(50 * time.Millisecond)
				line := 1460 + int64(time.Since(start)/(10*time.Microsecond))
				require.LessOrEqual(t, passed.Load(), line+1460)
			}
			for range peers {
				require.NoError(t, <-sent)
			}
			time.Sleep(time.Second)
		}
	})
}
