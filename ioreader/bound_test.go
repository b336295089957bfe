package ioreader_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// strange hides that a limiter is one of core's.
type strange struct{ core.Limiter }

func (s strange) Statistics() core.Statistics { return s.Limiter.(core.Reporter).Statistics() }

// budgets returns limiters that all hand out the permits of a concurrency limiter.
func budgets(t *testing.T, held *core.ConcurrencyLimiter) map[string]func() core.Limiter {
	t.Helper()
	limiters := over(t, held)
	delete(limiters, "a shadow") // it hands out any number
	limiters["foreign"] = func() core.Limiter { return strange{held} }
	limiters["foreign in a chain"] = func() core.Limiter { return core.Must(core.Chain(strange{held}, perSecond(t, 64<<10))) }
	return limiters
}

// inside counts the bytes that are inside Writes.
type inside struct {
	net.Conn

	now, most atomic.Int64
}

func (i *inside) Write(p []byte) (int, error) {
	n := i.now.Add(int64(len(p)))
	for most := i.most.Load(); n > most && !i.most.CompareAndSwap(most, n); most = i.most.Load() {
	}
	time.Sleep(time.Millisecond)
	i.now.Add(-int64(len(p)))
	return len(p), nil
}

func (*inside) SetWriteDeadline(time.Time) error { return nil }

func (*inside) Close() error { return nil }

// random returns functions that return random bytes to write, and random times in which to end.
func random(seed uint64) (part func() []byte, soon func() time.Duration) {
	r := rand.New(rand.NewPCG(seed, 1))
	part = func() []byte { return make([]byte, 1+r.IntN(16)) }
	soon = func() time.Duration { return time.Duration(1+r.IntN(20)) * time.Millisecond }
	return part, soon
}

// TestStreamsOfOneLimiterNeverWriteMore: whatever stands between the streams and the concurrency limiter,
// the bytes that are inside Writes are never more than its limit, also while calls end early.
func TestStreamsOfOneLimiterNeverWriteMore(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 64} {
		for name := range budgets(t, semaphore(t, limit)) {
			t.Run(fmt.Sprintf("%s of %d", name, limit), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					held := semaphore(t, limit)
					limiter := budgets(t, held)[name]()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					time.AfterFunc(300*time.Millisecond, cancel)
					var sink inside
					var all sync.WaitGroup
					for i := range 8 {
						all.Go(func() {
							part, soon := random(uint64(i))
							for ctx.Err() == nil {
								call, end := context.WithCancel(ctx)
								time.AfterFunc(soon(), end)
								w := ioreader.NewWriter(call, &sink, limiter)
								for call.Err() == nil {
									_, _ = w.Write(part())
								}
								_, _ = ioreader.Copy(ctx, &sink, bytes.NewReader(part()), ioreader.CopyOptions{Limiter: limiter})
							}
						})
						all.Go(func() {
							part, soon := random(uint64(i) + 100)
							c, err := ioreader.NewConn(&sink, ioreader.ConnOptions{Write: limiter})
							assert.NoError(t, err)
							for ctx.Err() == nil {
								assert.NoError(t, c.SetWriteDeadline(time.Now().Add(soon())))
								_, _ = c.Write(part())
							}
							assert.NoError(t, c.Close())
						})
					}
					all.Wait()
					require.LessOrEqual(t, sink.most.Load(), int64(limit))
					require.Positive(t, sink.most.Load())
					require.Equal(t, limit, held.Available())
				})
			})
		}
	}
}
