package ioreader_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/pipe"
)

// over returns limiters that ask l, and perhaps others too.
func over(t *testing.T, l core.Limiter) map[string]func() core.Limiter {
	t.Helper()
	keyed, err := partition.New(partition.Options[string, string]{
		Key: func(s string) string { return s },
		New: func(string) (core.Limiter, error) { return l, nil },
	})
	require.NoError(t, err)
	return map[string]func() core.Limiter{
		"it":          func() core.Limiter { return l },
		"a view":      func() core.Limiter { return core.WithReason(l, "full") },
		"a shadow":    func() core.Limiter { return core.Shadow(l) },
		"a chain":     func() core.Limiter { return core.Must(core.Chain(semaphore(t, 3), core.WithReason(l, "full"))) },
		"a rate":      func() core.Limiter { return core.Must(core.Chain(perSecond(t, 1<<20), l)) },
		"a key":       func() core.Limiter { return partition.For(keyed, "a") },
		"a switch":    func() core.Limiter { return core.NewSwitch(l) },
		"a user's":    func() core.Limiter { return viewing{l} },
		"both":        func() core.Limiter { return core.Must(core.Chain(semaphore(t, 1000), l, semaphore(t, 3))) },
		"key in view": func() core.Limiter { return core.WithReason(core.Must(core.Chain(partition.For(keyed, "a"))), "full") },
	}
}

// viewing is a user's view.
type viewing struct{ core.Limiter }

func (v viewing) Unwrap() core.Limiter { return v.Limiter }

// underneath are writers that ask the limiter l for the permits of the bytes, and pass them to sink.
func underneath(t *testing.T, ctx context.Context, sink io.Writer, l core.Limiter) map[string]func() io.Writer {
	t.Helper()
	conn := func() net.Conn {
		c, err := ioreader.NewConn(sinkConn{w: sink}, ioreader.ConnOptions{Write: l})
		require.NoError(t, err)
		return c
	}
	return map[string]func() io.Writer{
		"Writer":             func() io.Writer { return ioreader.NewWriter(ctx, sink, l) },
		"Writer over Writer": func() io.Writer { return ioreader.NewWriter(ctx, ioreader.NewWriter(ctx, sink, l), nil) },
		"connection":         func() io.Writer { return conn() },
		"wrapped connection": func() io.Writer { return wrapped{conn()} },
		"connection over it": func() io.Writer {
			c, err := ioreader.NewConn(conn(), ioreader.ConnOptions{Write: perSecond(t, 1<<20)})
			require.NoError(t, err)
			return c
		},
		"pipe": func() io.Writer {
			r, w, err := pipe.New(pipe.Options{WriteLimiter: l})
			require.NoError(t, err)
			go func() {
				_, _ = io.Copy(sink, r)
				_ = r.Close()
			}()
			context.AfterFunc(ctx, func() { _ = w.Close() })
			return w
		},
	}
}

// wrapped is a connection that returns the underlying one, as a *tls.Conn does.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

// sinkConn is a connection that writes to w.
type sinkConn struct {
	net.Conn

	w io.Writer
}

func (s sinkConn) Write(p []byte) (int, error) { return s.w.Write(p) }

// TestStreamsOverStreamsWithTheSameLimiter: all bytes pass, although each permit is needed twice, and the bytes
// inside the innermost Writes are never more than the limit.
func TestStreamsOverStreamsWithTheSameLimiter(t *testing.T) {
	const limit, writers, each = 8, 9, 60
	one := semaphore(t, 1)
	for inner := range underneath(t, t.Context(), io.Discard, one) {
		for above := range over(t, one) {
			for below := range over(t, one) {
				if (testkit.Race || testing.Short()) && above != below && above != "it" {
					continue // each takes ten times as long
				}
				t.Run(fmt.Sprintf("%s above %s of a %s", above, below, inner), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						l := semaphore(t, limit)
						ctx, cancel := context.WithCancel(t.Context())
						limiters := over(t, l)
						var sink inside
						var all sync.WaitGroup
						for i := range writers {
							w := underneath(t, ctx, &sink, limiters[below]())[inner]()
							all.Go(func() {
								if i%2 == 0 {
									n, err := ioreader.Copy(ctx, w, bytes.NewReader(make([]byte, each)), ioreader.CopyOptions{Limiter: limiters[above]()})
									assert.NoError(t, err)
									assert.EqualValues(t, each, n)
									return
								}
								n, err := ioreader.NewWriter(ctx, w, limiters[above]()).Write(make([]byte, each))
								assert.NoError(t, err)
								assert.Equal(t, each, n)
							})
						}
						all.Wait()
						time.Sleep(time.Minute)
						cancel()
						synctest.Wait()
						assert.Equal(t, limit, l.Available())
						if below != "a shadow" && inner != "pipe" {
							assert.LessOrEqual(t, sink.most.Load(), int64(limit))
						}
					})
				})
			}
		}
	}
}

// TestAKeyThatIsDroppedBetweenWrites has a limiter per key of one permit. The stream above takes it from a new limiter each
// time, before the streams can see that both use that.
func TestAKeyThatIsDroppedBetweenWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		keyed := core.Must(partition.NewByKey(func(string) (core.Limiter, error) { return semaphore(t, 1), nil }))
		w := ioreader.NewWriter(ctx, ioreader.NewWriter(ctx, io.Discard, partition.For(keyed, "a")), partition.For(keyed, "a"))
		for range 3 {
			n, err := w.Write([]byte("abc"))
			require.NoError(t, err)
			require.Equal(t, 3, n)
			keyed.Sweep() // a semaphore is idle from when it is first asked
			time.Sleep(time.Minute)
			require.Equal(t, 1, keyed.Sweep())
		}
	})
}

// TestAShadowUnderneathBoundsNothing, so the stream above does.
func TestAShadowUnderneathBoundsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := semaphore(t, 2)
		var sink inside
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				w := ioreader.NewWriter(t.Context(), ioreader.NewWriter(t.Context(), &sink, core.Shadow(l)), l)
				_, err := w.Write(make([]byte, 20))
				assert.NoError(t, err)
			})
		}
		all.Wait()
		require.LessOrEqual(t, sink.most.Load(), int64(2))
	})
}

// embeddingHeld embeds a limiter, of which its own methods may take permits.
type embeddingHeld struct{ *core.ConcurrencyLimiter }

// TestStreamsThatCannotBeSeparated: the first Write fails instead of waiting for itself.
func TestStreamsThatCannotBeSeparated(t *testing.T) {
	l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "shared", PermitLimit: 1}))
	w := ioreader.NewWriter(t.Context(), ioreader.NewWriter(t.Context(), io.Discard, l), embeddingHeld{l})
	n, err := w.Write([]byte("ab"))
	require.ErrorContains(t, err, "would wait for itself")
	require.ErrorContains(t, err, "shared")
	require.Zero(t, n)
	require.Equal(t, 1, l.Available())
}

// TestAWaitForAHiddenLimiterEndsWithItsContext: the streams cannot know that they wait for themselves.
func TestAWaitForAHiddenLimiterEndsWithItsContext(t *testing.T) {
	for name, writer := range map[string]func(ctx context.Context, l core.Limiter) io.Writer{
		"a bufio.Writer between": func(ctx context.Context, l core.Limiter) io.Writer {
			return ioreader.NewWriter(ctx, bufio.NewWriterSize(ioreader.NewWriter(ctx, io.Discard, l), 1), l)
		},
		"a user's limiter": func(ctx context.Context, l core.Limiter) io.Writer {
			return ioreader.NewWriter(ctx, ioreader.NewWriter(ctx, io.Discard, l), strange{l})
		},
		"a user's limiter of a pipe": func(ctx context.Context, l core.Limiter) io.Writer {
			r, w, err := pipe.New(pipe.Options{WriteLimiter: l})
			require.NoError(t, err)
			go func() { _, _ = io.Copy(io.Discard, r) }()
			context.AfterFunc(ctx, func() { time.Sleep(time.Hour); _ = w.Close() })
			return ioreader.NewWriter(ctx, w, strange{l})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := semaphore(t, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				_, err := writer(ctx, l).Write(make([]byte, 100))
				require.Equal(t, context.DeadlineExceeded, err)
				require.Equal(t, time.Minute, time.Since(start))
				require.Equal(t, 1, l.Available())
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// TestWaitingWhateverQueueLimitIs: a limiter without a queue makes no stream fail.
func TestWaitingWhateverQueueLimitIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := tokenBucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 10, ReplenishmentPeriod: time.Second})
		held := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 8}))
		both := core.Must(core.Chain(held, core.WithReason(rate, "slow down")))
		start := time.Now()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				n, err := ioreader.Copy(t.Context(), io.Discard, ioreader.NewReader(t.Context(), bytes.NewReader(make([]byte, 50)), both), ioreader.CopyOptions{Limiter: both})
				assert.NoError(t, err)
				assert.EqualValues(t, 50, n)
			})
		}
		all.Wait()
		require.Equal(t, 39*time.Second, time.Since(start))
		require.Zero(t, rate.Statistics().Rejected)
		require.Zero(t, held.Statistics().Rejected)
		require.Zero(t, both.Statistics().Rejected)
	})
}

// selfish is a connection that names itself as the one underneath.
type selfish struct{ net.Conn }

func (s selfish) NetConn() net.Conn { return s }

func TestAConnectionThatNamesItself(t *testing.T) {
	w := ioreader.NewWriter(t.Context(), selfish{sinkConn{w: io.Discard}}, semaphore(t, 1))
	n, err := w.Write([]byte("abc"))
	require.NoError(t, err)
	require.Equal(t, 3, n)
}
