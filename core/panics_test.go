package core_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
)

// faulty is a context of somebody's own, of which a method panics from some call on.
type faulty struct {
	context.Context
	done bool // Done panics
	errs int  // so many calls of Err do not; below 0: none does
}

func (f *faulty) Done() <-chan struct{} {
	if f.done {
		panic("Done")
	}
	return f.Context.Done()
}

func (f *faulty) Err() error {
	if f.errs == 0 {
		panic("Err")
	}
	f.errs--
	return f.Context.Err()
}

// A context whose Done panics leaves nobody in the queue.
func TestADoneThatPanicsLeavesTheQueue(t *testing.T) {
	eachOfFour(t, 2, 4, func(t *testing.T, l everything) {
		panics := func(l core.Limiter, permits int) {
			require.Panics(t, func() { _, _ = l.Acquire(&faulty{Context: t.Context(), done: true, errs: -1}, permits) })
		}
		takes(t, l, 1)
		panics(l, 2)
		panics(chain(t, l), 2)
		require.Zero(t, l.Statistics().Queued)
		takes(t, l, 1) // nobody is before it
		panics(l, 0)
		panics(chain(t, l), 0)
		counts(t, l, 2, 0, 0, 2, 0)
	})
}

// Nor does it hold up those that came after it, or take what it was granted meanwhile.
func TestADoneThatPanicsHoldsNobodyUp(t *testing.T) {
	eachOfFour(t, 2, 4, func(t *testing.T, l everything) {
		held := takes(t, l, 1)
		var next *acquire
		require.Panics(t, func() {
			_, _ = l.Acquire(&asked{Context: t.Context(), first: func() {
				next = queues(t, l, 1)
				panic("Done")
			}}, 2)
		})
		synctest.Wait()
		l.Refund(next.granted(t))

		require.Panics(t, func() {
			_, _ = l.Acquire(&asked{Context: t.Context(), first: func() {
				l.Refund(held)
				require.Zero(t, l.Available()) // granted by now
				panic("Done")
			}}, 2)
		})
		available(t, l, 2)
	})
}

// A context whose Err panics after the grant holds nothing.
func TestAnErrThatPanicsHoldsNothing(t *testing.T) {
	eachOfFour(t, 2, 4, func(t *testing.T, l everything) {
		held := takes(t, l, 1)
		panicked := make(chan any)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = l.Acquire(&faulty{Context: t.Context(), errs: 2}, 2)
		}()
		synctest.Wait()
		require.Equal(t, 2, l.Statistics().Queued)
		l.Refund(held)
		require.Equal(t, "Err", <-panicked)
		available(t, l, 2)
	})
}

// So it is with permits that are taken without a lease.
func TestPlainPermitsOutliveAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 2, 4)
		p, ok := direct.Core[core.Lease]().Permits(l)
		require.True(t, ok)
		require.True(t, p.TryTake(1))
		require.Panics(t, func() { _ = p.Take(&faulty{Context: t.Context(), done: true, errs: -1}, 2) })
		require.Zero(t, l.Statistics().Queued)

		panicked := make(chan any)
		go func() {
			defer func() { panicked <- recover() }()
			_ = p.Take(&faulty{Context: t.Context(), errs: 2}, 2)
		}()
		synctest.Wait()
		p.Give(1)
		require.Equal(t, "Err", <-panicked)
		available(t, l, 2)
	})
}
