package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// A task whose lease the limiter, a user's, is being asked for as Close cancels never starts, and its lease is back.
func TestACloseBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &odd{ConcurrencyLimiter: concurrency(t, 4)}
		p := newPool(t, worker.Options{Limiter: l, Queue: 1})
		g, answer := newGate(), newGate()
		submits(t, p, func(ctx context.Context) error { return errors.Join(g.task(ctx), errTask) })
		synctest.Wait()
		l.acquire = func(ctx context.Context, n int) (core.Lease, error) {
			<-answer
			return l.ConcurrencyLimiter.Acquire(context.WithoutCancel(ctx), n)
		}
		submits(t, p, never)
		counts(t, p, worker.Statistics{Running: 1, Queued: 1})
		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.EqualError(t, p.Close(done), "worker: closed with 1 running and 1 queued tasks canceled: context canceled")
		answer.open()
		g.open()
		require.ErrorIs(t, p.Wait(t.Context()), worker.ErrClosed)
		require.Equal(t, worker.Statistics{Done: 2, Failed: 2}, p.Statistics())
		drained(t, p, l)
	})
}

// ledger is a limiter of a user's that records how many permits each of its grants has.
type ledger struct {
	*core.ConcurrencyLimiter

	mu      sync.Mutex
	granted []int
}

func (g *ledger) TryAcquire(n int) core.Lease {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.ConcurrencyLimiter.TryAcquire(n)
	if l.Acquired() {
		g.granted = append(g.granted, n)
	}
	return l
}

func (g *ledger) Acquire(ctx context.Context, n int) (core.Lease, error) {
	l, err := g.ConcurrencyLimiter.Acquire(ctx, n)
	if err == nil && n > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.granted = append(g.granted, n)
	}
	return l, err
}

// Whatever ends while the limiter is being asked for another: tasks get their leases in the order in which they
// were accepted.
func TestStressOrder(t *testing.T) {
	for _, o := range []worker.Options{{Queue: 1}, {Queue: 3}, {Queue: 64}, {Queue: 8, Workers: 2}} {
		for _, permits := range []int{1, 3, 16} {
			t.Run(fmt.Sprintf("queue=%d,workers=%d,permits=%d", o.Queue, o.Workers, permits), func(t *testing.T) {
				l := &ledger{ConcurrencyLimiter: concurrency(t, permits)}
				o.Limiter = l
				p := newPool(t, o)
				var want []int
				for i := range 2000 {
					n := 1 + i*i%permits
					want = append(want, n)
					assert.NoError(t, p.SubmitN(t.Context(), n, func(context.Context) error {
						if i%3 == 0 {
							runtime.Gosched()
						}
						return nil
					}))
				}
				require.NoError(t, p.Wait(t.Context()))
				require.Equal(t, want, l.granted)
				drained(t, p, l)
			})
		}
	}
}
