package partition_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// A context whose deadline passes while its request waits in Overflow ends the request with
// its own error.
func TestDeadlineInOverflow(t *testing.T) {
	held := semaphore("", 1)
	require.True(t, held.TryAcquire(1).Acquired())
	for name, overflow := range map[string]core.Limiter{"core's": held, "a user's": bare{held}} {
		t.Run(name, func(t *testing.T) {
			k := newKeyed(t, options{MaxPartitions: 1, Overflow: overflow})
			takes(t, k, "a", 1)
			var wg sync.WaitGroup
			for w := range 8 {
				wg.Go(func() {
					for i := range 200 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(w*37+i*13)%100)*time.Microsecond)
						_, err := k.Acquire(ctx, "b", 1)
						cancel()
						if err != context.DeadlineExceeded { //nolint:errorlint // unchanged
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// passing is a context at the instant at which its deadline passes: Err tells of it, and Done
// is closed a moment later, as package context does it too.
type passing struct {
	context.Context

	done chan struct{}
	past atomic.Bool
}

func (p *passing) Done() <-chan struct{} { return p.done }

func (p *passing) Err() error {
	if p.past.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// A limiter that looks at its context at that very instant does not turn the deadline into a
// cancellation.
func TestOverflowLooksWhileTheDeadlinePasses(t *testing.T) {
	p := &passing{Context: t.Context(), done: make(chan struct{})}
	f := newFake(busy)
	f.acquire = func(ctx context.Context, _ int) (core.Lease, error) {
		p.past.Store(true)
		_ = ctx.Err()
		close(p.done)
		<-ctx.Done()
		return core.Fail(ctx.Err()), ctx.Err()
	}
	k := newKeyed(t, options{MaxPartitions: 1, Overflow: f})
	takes(t, k, "a", 1)
	_, err := k.Acquire(p, "b", 1)
	require.Equal(t, context.DeadlineExceeded, err)
}
