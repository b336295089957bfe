package pipe_test

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

// TestStressALargeWriteEndsInTheMidstOfARead: whatever ends a Write that waits, and however
// much of it is left, it comes back, even as a Read copies out of it.
func TestStressALargeWriteEndsInTheMidstOfARead(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	for name, over := range map[string]func(a, b end, cancel context.CancelFunc){
		"ctx":        func(_, _ end, cancel context.CancelFunc) { cancel() },
		"deadline":   func(a, _ end, _ context.CancelFunc) { _ = a.SetWriteDeadline(time.Unix(1, 0)) },
		"close":      func(a, _ end, _ context.CancelFunc) { _ = a.Close() },
		"peer close": func(_, b end, _ context.CancelFunc) { _ = b.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, 2))
			for range 100 {
				ctx, cancel := context.WithCancel(t.Context())
				a, b, write := largeWriter(t, ctx, name == "ctx")
				var all sync.WaitGroup
				written := make(chan int, 1)
				all.Go(func() {
					n, _ := write(make([]byte, size)) // for ever, if nobody ends it
					written <- n
				})
				all.Go(func() {
					for buf := make([]byte, size/2); ; {
						if _, err := b.Read(buf); err != nil {
							return
						}
					}
				})
				time.Sleep(time.Duration(rng.IntN(300_000)))
				over(a, b, cancel)
				assert.LessOrEqual(t, <-written, size)
				cancel()
				_ = a.Close()
				_ = b.Close()
				all.Wait()
			}
		})
	}
}

// end is what the test needs of both ends.
type end interface {
	io.ReadWriteCloser
	SetWriteDeadline(t time.Time) error
}

// largeWriter returns two ends, and the Write of the first, by a pipe whose Writes take ctx.
func largeWriter(t *testing.T, ctx context.Context, byContext bool) (a, b end, write func([]byte) (int, error)) {
	t.Helper()
	if byContext {
		r, w := newPipe(t, pipe.Options{})
		return half{nil, w, w}, half{r, nil, r}, func(p []byte) (int, error) { return w.WriteContext(ctx, p) }
	}
	a, b, err := pipe.Conns(pipe.Options{}, pipe.Options{})
	require.NoError(t, err)
	return a, b, a.Write
}

type half struct {
	io.Reader
	io.Writer
	io.Closer
}

func (half) SetWriteDeadline(time.Time) error { return nil }

func TestALargeWriteIsReadInPlace(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]func(*testing.T) pipe.Options{
		"unlimited": func(*testing.T) pipe.Options { return pipe.Options{} },
		"concurrency": func(t *testing.T) pipe.Options {
			return pipe.Options{WriteLimiter: concurrency(t, 64<<10, math.MaxInt)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, w := newPipe(t, o(t))
				writes(t, w, "first ")
				large := make([]byte, 1<<20)
				for i := range large {
					large[i] = byte(i >> 8)
				}
				go func() {
					n, err := w.Write(large)
					assert.NoError(t, err)
					assert.Equal(t, len(large), n)
					assert.NoError(t, w.Close())
				}()
				synctest.Wait()
				assert.LessOrEqual(t, r.Buffered(), 64<<10)
				got, err := io.ReadAll(r)
				assert.NoError(t, err)
				assert.Equal(t, "first ", string(got[:6]))
				assert.Equal(t, large, got[6:])
			})
		})
	}
}

// TestWhatALargeWriteHasPaidForPasses has a Write that lends its bytes give up: those that
// have permits are buffered.
func TestWhatALargeWriteHasPaidForPasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 100_000, math.MaxInt)
		r, w := newPipe(t, pipe.Options{WriteLimiter: l})
		ctx, cancel := context.WithCancel(t.Context())
		wrote := make(chan int)
		go func() {
			n, err := w.WriteContext(ctx, make([]byte, 1<<20))
			assert.Equal(t, context.Canceled, err)
			wrote <- n
		}()
		synctest.Wait()
		_, err := io.ReadFull(r, make([]byte, 1000))
		require.NoError(t, err)
		available(t, l, 1000)
		cancel()
		require.Equal(t, 100_000, <-wrote)
		require.Equal(t, 99_000, r.Buffered())
		available(t, l, 1000)
		require.NoError(t, r.Close())
		available(t, l, 100_000)
	})
}

// sleeping is a limiter that looks at no context while it makes its callers wait, as an
// adapter around one that knows none.
type sleeping struct{ core.Limiter }

func (sleeping) Acquire(_ context.Context, n int) (core.Lease, error) {
	time.Sleep(time.Second)
	return core.Grant(n, nil), nil
}

func TestWhatWasGrantedReachesAWaitingReadAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := newPipe(t, pipe.Options{WriteLimiter: sleeping{core.Unlimited()}})
		begun := time.Now()
		go func() {
			_, err := w.Write(make([]byte, 64<<10))
			assert.NoError(t, err)
			assert.NoError(t, w.Close())
		}()
		_, err := r.Read(make([]byte, 64<<10))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(begun))
		_, err = io.Copy(io.Discard, r)
		require.NoError(t, err)
	})
}

// An end that is closed takes no deadline; one whose peer is closed does.
func TestDeadlinesOfClosedConns(t *testing.T) {
	t.Parallel()
	a, b := conns(t, pipe.Options{}, pipe.Options{})
	require.NoError(t, a.(interface{ CloseWrite() error }).CloseWrite())
	require.NoError(t, a.SetDeadline(time.Time{}), "it can still read")
	require.NoError(t, b.SetDeadline(time.Time{}), "it can still write")
	require.NoError(t, b.Close())
	for _, at := range []time.Time{{}, time.Unix(1, 0)} {
		for _, set := range []func(net.Conn, time.Time) error{net.Conn.SetDeadline, net.Conn.SetReadDeadline, net.Conn.SetWriteDeadline} {
			require.NoError(t, set(a, at))
			require.Equal(t, io.ErrClosedPipe, set(b, at))
		}
	}
}

// TestALargeWriteMeetsAReadThatEnds: at the instant at which a waiting Read ends, a Write that
// fits into the buffer begins, and does not wait for that Read.
func TestALargeWriteMeetsAReadThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for i := range 1000 {
			a, b := conns(t, pipe.Options{}, pipe.Options{})
			require.NoError(t, b.SetReadDeadline(time.Now().Add(time.Second)))
			written := make(chan error, 1)
			time.AfterFunc(time.Second, func() {
				_, err := a.Write(make([]byte, 20<<10))
				written <- err
			})
			n, err := b.Read(make([]byte, 64<<10))
			if err != nil {
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			}
			require.NoError(t, <-written)
			require.NoError(t, b.SetReadDeadline(time.Time{}))
			if i%2 == 0 && n < 20<<10 {
				_, err = io.ReadFull(b, make([]byte, 20<<10-n))
				require.NoError(t, err)
			}
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		}
	})
}
