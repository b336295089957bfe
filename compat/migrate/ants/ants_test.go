package ants_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/panjf2000/ants/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/ants/after"
	"github.com/sluice-go/sluice/compat/migrate/ants/before"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

func TestMain(m *testing.M) {
	ants.Release() // the pool that ants makes when it is imported, with its goroutines
	goleak.VerifyTestMain(m)
}

// pool is what is asked of both.
type pool struct {
	run   func(job func()) error
	close func() error
	full  func(err error) bool
}

func newBefore(t *testing.T) pool {
	t.Helper()
	p, err := before.NewPool()
	require.NoError(t, err)
	return pool{p.Run, p.Close, func(err error) bool { return errors.Is(err, ants.ErrPoolOverload) }}
}

func newAfter(t *testing.T) pool {
	t.Helper()
	p, err := after.NewPool()
	require.NoError(t, err)
	return pool{
		func(job func()) error { return p.Run(t.Context(), job) },
		func() error { return p.Close(t.Context()) },
		func(err error) bool { return errors.Is(err, core.ErrRejected) },
	}
}

// Eight jobs run at once, a hundred wait, the next is refused, and all that were taken are done at the end.
func TestFull(t *testing.T) {
	for name, newPool := range map[string]func(*testing.T) pool{"before": newBefore, "after": newAfter} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t)
				hold, started, done := make(chan struct{}), make(chan struct{}, 200), make(chan struct{}, 200)
				job := func() { started <- struct{}{}; <-hold; done <- struct{}{} }
				results := make(chan error, 200)
				for range 8 + 100 {
					go func() { results <- p.run(job) }()
				}
				synctest.Wait()
				require.Len(t, started, 8)
				require.Len(t, results, 8)
				require.True(t, p.full(p.run(job)))
				close(hold)
				for range 108 {
					require.NoError(t, <-results)
					<-done
				}
				require.NoError(t, p.close())
				require.Error(t, p.run(job))
			})
		})
	}
}

// A panic is an error of the pool's Wait.
func TestPanic(t *testing.T) {
	p, err := worker.New(worker.Options{Limiter: core.Unlimited(), Workers: 1})
	require.NoError(t, err)
	require.NoError(t, p.Submit(t.Context(), func(context.Context) error { panic("boom") }))
	var panicked *worker.PanicError
	require.ErrorAs(t, p.Wait(t.Context()), &panicked)
	require.Equal(t, "boom", panicked.Value)
}
