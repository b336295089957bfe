package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/worker"
)

// calls are the calls that end with a context, each with a task that must not run to its end.
var calls = map[string]func(ctx context.Context, p *worker.Pool) error{
	"Submit": func(ctx context.Context, p *worker.Pool) error { return p.Submit(ctx, never) },
	"Do": func(ctx context.Context, p *worker.Pool) error {
		_, err := worker.Do(ctx, p, func(context.Context) (int, error) { return 0, never(ctx) })
		return err
	},
	"Group": func(ctx context.Context, p *worker.Pool) error {
		g := p.Group(ctx)
		g.Go(never)
		return g.Wait()
	},
	"Map": func(ctx context.Context, p *worker.Pool) error {
		for _, err := range worker.Map(ctx, p, upTo(3), func(context.Context, int) (int, error) { return 0, never(ctx) }) {
			return err
		}
		return nil
	},
	"Wait": func(ctx context.Context, p *worker.Pool) error { return p.Wait(ctx) },
}

var errOwn = errors.New("the context's own")

// asking is a context whose Err uses the pool: it deadlocks if the pool calls it with its mutex held.
type asking struct {
	testkit.OwnError

	pool *worker.Pool
}

func (c asking) Err() error {
	_ = c.pool.Statistics()
	return c.OwnError.Err()
}

// The error of the context comes back unchanged, whatever the call waits for and however the context ends.
func TestTheErrorIsTheContexts(t *testing.T) {
	for name, call := range calls {
		for _, o := range []worker.Options{{}, {Workers: 1}, {Queue: 1}, {Queue: 8}, {Queue: 1, Workers: 1}} {
			for limit, l := range map[string]*core.ConcurrencyLimiter{"waits": concurrency(t, 1), "rejects": impatient(t, 1)} {
				for _, users := range []bool{false, true} {
					if users && limit == "rejects" {
						continue // its rejection is the answer
					}
					o.Limiter = l
					if users {
						o.Limiter = &odd{ConcurrencyLimiter: l}
					}
					kind := fmt.Sprintf("%s/%s/workers=%d,queue=%d,users=%t", name, limit, o.Workers, o.Queue, users)
					testkit.Bubble(t, kind, func(t *testing.T) { endsUnchanged(t, newPool(t, o), o, name, call) })
				}
			}
		}
	}
}

func endsUnchanged(t *testing.T, p *worker.Pool, o worker.Options, name string, call func(context.Context, *worker.Pool) error) {
	t.Helper()
	g := newGate()
	submits(t, p, g.task)
	if name == "Submit" { // which waits for room only
		for range o.Queue {
			submits(t, p, nothing)
		}
	}
	for _, how := range []string{"own", "own deadline", "custom"} {
		ctx, end := contextThatEnds(t, p, how)
		waits := later(func() error { return call(ctx, p) })
		waiting(t, waits)
		end()
		require.Equal(t, errOwn, returned(t, waits), how)
	}
	g.open()
	require.NoError(t, p.Close(t.Context()))
}

// contextThatEnds returns a context of some kind, whose error is errOwn, and how to end it.
func contextThatEnds(t *testing.T, p *worker.Pool, how string) (ctx context.Context, end func()) {
	t.Helper()
	if how == "custom" {
		custom := testkit.NewContext()
		return custom, func() { custom.End(errOwn) }
	}
	inner, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	end = cancel
	if how == "own deadline" {
		end = func() { time.Sleep(2 * time.Second) }
	}
	return asking{testkit.OwnError{Context: inner, Own: errOwn}, p}, end
}
