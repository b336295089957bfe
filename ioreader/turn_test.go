package ioreader_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/ioreader"
)

// slow is a connection whose calls take a millisecond.
type slow struct{ net.Conn }

func (slow) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return len(p), nil
}

func (slow) Write(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return len(p), nil
}

func (slow) Close() error { return nil }

// TestCallsOnOneStreamTakeTurns has goroutines that call one stream again and again.
func TestCallsOnOneStreamTakeTurns(t *testing.T) {
	for name, limiter := range map[string]func() core.Limiter{
		"no limit": func() core.Limiter { return nil },
		"a rate":   func() core.Limiter { return perSecond(t, 8<<20) },
		"a bound":  func() core.Limiter { return semaphore(t, 8<<20) },
	} {
		for _, kind := range []string{"Write", "Read", "ReadFrom", "conn's Write", "conn's Read"} {
			testkit.Bubble(t, fmt.Sprint(kind, ", ", name), func(t *testing.T) {
				l := limiter()
				if l == nil && kind[0] == 'c' {
					return // the calls go to the connection underneath
				}
				conn, err := ioreader.NewConn(slow{}, ioreader.ConnOptions{Read: l, Write: l})
				require.NoError(t, err)
				w, r := ioreader.NewWriter(t.Context(), slow{}, l), ioreader.NewReader(t.Context(), slow{}, l)
				call := map[string]func([]byte) (int, error){
					"Write": w.Write, "Read": r.Read, "conn's Write": conn.Write, "conn's Read": conn.Read,
					"ReadFrom": func(p []byte) (int, error) {
						n, err := w.ReadFrom(bytes.NewReader(p))
						return int(n), err
					},
				}[kind]
				counts := make([]int, 4)
				var all sync.WaitGroup
				end := time.Now().Add(10 * time.Second)
				for i := range counts {
					all.Go(func() {
						for p := make([]byte, 4<<10); time.Now().Before(end); counts[i]++ {
							if _, err := call(p); err != nil {
								t.Error(err)
							}
						}
					})
				}
				all.Wait()
				equalWithin(t, 0.2, counts)
			})
		}
	}
}

// equalWithin requires that each count is the mean, but for a part.
func equalWithin(t *testing.T, part float64, counts []int) {
	t.Helper()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	for _, n := range counts {
		require.InEpsilon(t, float64(sum)/float64(len(counts)), n, part, "%v", counts)
	}
}

// TestASmallWriteBesideALoop is a Write that comes second each time, beside a goroutine that does nothing but write.
func TestASmallWriteBesideALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := ioreader.NewWriter(t.Context(), slow{}, nil)
		ended := make(chan error)
		go func() {
			var err error
			for p := make([]byte, 64<<10); err == nil; {
				_, err = w.Write(p)
			}
			ended <- err
		}()
		for range 10 {
			synctest.Wait()
			start := time.Now()
			_, err := w.Write(make([]byte, 10))
			require.NoError(t, err)
			require.Equal(t, 2*time.Millisecond, time.Since(start)) // the one before it, and its own
		}
		require.NoError(t, w.Close())
		require.Equal(t, io.ErrClosedPipe, <-ended)
	})
}
