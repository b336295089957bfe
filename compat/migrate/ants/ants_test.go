package ants_test

import (
	"context"
	"errors"
	"testing"

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

func pools(t *testing.T) map[string]pool {
	t.Helper()
	was, err := before.NewPool()
	require.NoError(t, err)
	is, err := after.NewPool()
	require.NoError(t, err)
	return map[string]pool{
		"before": {was.Run, was.Close, func(err error) bool { return errors.Is(err, ants.ErrPoolOverload) }},
		"after": {
			func(job func()) error { return is.Run(t.Context(), job) },
			func() error { return is.Close(context.WithoutCancel(t.Context())) },
			func(err error) bool { return errors.Is(err, core.ErrRejected) },
		},
	}
}

// Eight jobs run at once, a hundred wait, the next is refused, and all that were taken are done at the end.
func TestFull(t *testing.T) {
	for name, p := range pools(t) {
		t.Run(name, func(t *testing.T) {
			hold, done := make(chan struct{}), make(chan struct{}, 200)
			job := func() { <-hold; done <- struct{}{} }
			results := make(chan error, 200)
			for range 8 {
				require.NoError(t, p.run(job))
			}
			for range 101 {
				go func() { results <- p.run(job) }()
			}
			require.True(t, p.full(<-results), "one of the 101 is refused")
			close(hold)
			for range 100 {
				require.NoError(t, <-results)
			}
			for range 108 {
				<-done
			}
			require.NoError(t, p.close())
			require.Error(t, p.run(job))
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
