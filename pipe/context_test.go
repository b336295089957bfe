package pipe_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/pipe"
)

var errOwn = errors.New("own")

// The error of a context comes back unchanged wherever a call waits, also from a user's context that has an Err
// of its own, and whose methods use the pipe: none is called under the pipe's mutex.
func TestTheErrorOfAContextComesBackUnchanged(t *testing.T) {
	write := func(n int) func(context.Context, *pipe.Reader, *pipe.Writer) error {
		return func(ctx context.Context, _ *pipe.Reader, w *pipe.Writer) error {
			_, err := w.WriteContext(ctx, make([]byte, n))
			return err
		}
	}
	read := func(ctx context.Context, r *pipe.Reader, _ *pipe.Writer) error {
		_, err := r.ReadContext(ctx, make([]byte, 9))
		return err
	}
	type test struct {
		options pipe.Options
		before  int // bytes
		call    func(context.Context, *pipe.Reader, *pipe.Writer) error
	}
	tests := map[string]test{
		"waits for bytes":   {call: read},
		"waits for room":    {before: 60 << 10, call: write(10 << 10)},
		"lends its bytes":   {before: 60 << 10, call: write(100 << 10)},
		"large and holds":   {options: pipe.Options{WriteLimiter: concurrency(t, 64<<10, math.MaxInt)}, call: write(100 << 10)},
		"has to be granted": {options: pipe.Options{ReadLimiter: core.WithReason(concurrency(t, 1, 9), "busy")}, before: 1, call: read},
	}
	held := tests["has to be granted"].options.ReadLimiter.TryAcquire(1)
	defer held.Release()
	for name, l := range limiterKinds(t) {
		tests["is throttled by "+name] = test{options: pipe.Options{WriteLimiter: l}, call: write(8)}
	}
	for name, test := range tests {
		testkit.Bubble(t, name, func(t *testing.T) {
			r, w := newPipe(t, test.options)
			_, err := w.Write(make([]byte, test.before))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			done := make(chan error, 2)
			for range 2 { // one of them waits for its turn
				own := own{testkit.OwnError{Context: ctx, Own: errOwn}, r}
				go func() { done <- test.call(own, r, w) }()
			}
			start := time.Now()
			require.Equal(t, errOwn, <-done)
			require.Equal(t, errOwn, <-done)
			require.Equal(t, time.Second, time.Since(start))
			require.NoError(t, r.Close())
		})
	}
}

// own is a context that looks at a pipe. It hides the deadline, so that no limiter rejects a request that is
// hopeless.
type own struct {
	testkit.OwnError

	r *pipe.Reader
}

func (own) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c own) Done() <-chan struct{} {
	c.r.Buffered()
	return c.OwnError.Done()
}

func (c own) Err() error {
	c.r.Buffered()
	return c.OwnError.Err()
}
