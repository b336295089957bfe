package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// What users of errgroup rely on holds for a Group behind errgroup's own methods.

// group has the methods of an errgroup.Group.
type group struct{ *worker.Group }

// withContext is errgroup.WithContext followed by SetLimit.
func withContext(ctx context.Context, tb testing.TB, limit int) (group, context.Context) {
	tb.Helper()
	g := newPool(tb, worker.Options{Limiter: concurrency(tb, limit)}).Group(ctx)
	derived := make(chan context.Context, 1)
	g.Go(func(ctx context.Context) error {
		derived <- ctx
		return nil
	})
	return group{g}, <-derived
}

func (g group) Go(f func() error) { g.Group.Go(func(context.Context) error { return f() }) }

const noLimit = math.MaxInt

func TestErrgroupReturnsTheFirstError(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, errs := range [][]error{{}, {nil}, {first}, {first, nil}, {nil, first}, {first, second}, {nil, first, nil, second}} {
		g, _ := withContext(t.Context(), t, 1) // so that the first is the first
		var want error
		for _, err := range errs {
			if want == nil {
				want = err
			}
			g.Go(func() error { return err })
		}
		require.Equal(t, want, g.Wait(), "%v", errs)
	}
}

func TestErrgroupContext(t *testing.T) {
	for _, want := range []error{nil, errTask} {
		g, ctx := withContext(t.Context(), t, noLimit)
		for _, err := range []error{nil, want, nil} {
			g.Go(func() error { return err })
		}
		require.Equal(t, want, g.Wait())
		require.Equal(t, context.Canceled, ctx.Err(), "it ends with Wait in any case")
		if want == nil {
			want = context.Canceled
		}
		require.Equal(t, want, context.Cause(ctx))
	}
}

func TestErrgroupLimit(t *testing.T) {
	const limit = 10
	g, _ := withContext(t.Context(), t, limit)
	var active atomic.Int32
	for range 1 << 10 {
		g.Go(func() error {
			if n := active.Add(1); n > limit {
				return fmt.Errorf("%d are active, want at most %d", n, limit)
			}
			time.Sleep(time.Microsecond) // lets others come
			active.Add(-1)
			return nil
		})
	}
	require.NoError(t, g.Wait())
}

// Independent requests whose results are put together, or that fail together.
func TestErrgroupInParallel(t *testing.T) {
	search := func(kind string) (string, error) {
		if kind == "none" {
			return "", errTask
		}
		return kind + " result", nil
	}
	for _, kinds := range [][]string{{"web", "image", "video"}, {"web", "none", "video"}} {
		g, _ := withContext(t.Context(), t, noLimit)
		results := make([]string, len(kinds))
		for i, kind := range kinds {
			g.Go(func() (err error) {
				results[i], err = search(kind)
				return err
			})
		}
		if err := g.Wait(); kinds[1] == "none" {
			require.Equal(t, errTask, err)
		} else {
			require.NoError(t, err)
			require.Equal(t, []string{"web result", "image result", "video result"}, results)
		}
	}
}

// Stages that hand values on through channels, each a task, end together: by themselves, or
// when one fails while the others wait.
func TestErrgroupPipeline(t *testing.T) {
	for _, bad := range []bool{false, true} {
		g, ctx := withContext(t.Context(), t, noLimit)
		words, lengths := make(chan string), make(chan int)
		g.Go(func() error {
			defer close(words)
			for i := range 100 {
				select {
				case words <- strings.Repeat("x", i):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
		for range 4 {
			g.Go(func() error {
				for word := range words {
					if bad && len(word) == 50 {
						return errTask
					}
					select {
					case lengths <- len(word):
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				return nil
			})
		}
		waited := later(func() error {
			defer close(lengths)
			return g.Wait()
		})
		sum := 0
		for n := range lengths {
			sum += n
		}
		if err := <-waited; bad {
			require.Equal(t, errTask, err, "not what the others return because of it")
		} else {
			require.NoError(t, err)
			require.Equal(t, 99*100/2, sum)
		}
	}
}

// Without a limit, as with errgroup, no one waits for anybody.
func TestErrgroupWithoutALimit(t *testing.T) {
	g := group{newPool(t, worker.Options{Limiter: core.Unlimited()}).Group(t.Context())}
	meet := make(chan struct{})
	for i := range 200 {
		g.Go(func() error {
			if i%2 == 0 {
				meet <- struct{}{}
			} else {
				<-meet
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
}
