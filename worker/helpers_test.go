package worker_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

var errTask = errors.New("the task failed")

// concurrency returns a limiter of that many permits with an unbounded queue.
func concurrency(tb testing.TB, permits int) *core.ConcurrencyLimiter {
	tb.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: math.MaxInt}))
}

// impatient returns a limiter of that many permits without a queue.
func impatient(tb testing.TB, permits int) *core.ConcurrencyLimiter {
	tb.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits}))
}

func newPool(tb testing.TB, o worker.Options) *worker.Pool {
	tb.Helper()
	p, err := worker.New(o)
	require.NoError(tb, err)
	return p
}

// gate is a task that runs until it is opened.
type gate chan struct{}

func newGate() gate { return make(gate) }

func (g gate) open() { close(g) }

func (g gate) task(context.Context) error {
	<-g
	return nil
}

func nothing(context.Context) error { return nil }

func fails(context.Context) error { return errTask }

// hears is a task that runs until its context ends, and returns the cause.
func hears(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func two(task worker.Task) []worker.Task { return []worker.Task{task, task} }

// counts checks the pool's statistics, when all goroutines are blocked.
func counts(t *testing.T, p *worker.Pool, want worker.Statistics) {
	t.Helper()
	synctest.Wait()
	require.Equal(t, want, p.Statistics())
}

// submits gives the pool tasks that must be accepted without a wait.
func submits(t *testing.T, p *worker.Pool, tasks ...worker.Task) {
	t.Helper()
	for _, task := range tasks {
		require.NoError(t, p.Submit(t.Context(), task))
	}
}

// rejected checks that a task is rejected now, and why.
func rejected(t *testing.T, p *worker.Pool, reason string) {
	t.Helper()
	err := p.TrySubmit(nothing)
	require.ErrorIs(t, err, core.ErrRejected)
	var rejection *core.RejectedError
	require.ErrorAs(t, err, &rejection)
	require.Equal(t, reason, rejection.Reason)
	require.Equal(t, 1, rejection.Permits)
}

// later calls f in a goroutine and returns where its error will be.
func later(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}

// waiting checks that a call made by later has not returned.
func waiting(t *testing.T, c <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		require.FailNow(t, "it did not wait", "%v", err)
	default:
	}
}

// returned checks that a call made by later has returned, and returns its error.
func returned(t *testing.T, c <-chan error) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		return err
	default:
		require.FailNow(t, "it still waits")
		return nil
	}
}

// closesNow closes the pool without waiting for its tasks.
func closesNow(t *testing.T, p *worker.Pool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Close(ctx), context.Canceled)
}

// drained checks that nothing of the pool is left: no lease, no goroutine.
func drained(t *testing.T, p *worker.Pool, l core.Reporter) {
	t.Helper()
	require.NoError(t, p.Close(t.Context()))
	s := l.Statistics()
	require.Equal(t, s.Limit, s.Available, "leases are out")
	require.Zero(t, s.Queued)
	k := p.Statistics()
	require.Zero(t, k.Running)
	require.Zero(t, k.Queued)
}
