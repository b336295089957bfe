package ending_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/internal/ending"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errShut = errors.New("shut")

type key struct{}

// ended checks what package context promises of a context that has ended.
func ended(t *testing.T, ctx context.Context, err, cause error) {
	t.Helper()
	for range 2 {
		require.Equal(t, err, ctx.Err())
		select {
		case <-ctx.Done():
		default:
			t.Error("Err is set, Done is open")
		}
		require.Equal(t, cause, context.Cause(ctx))
	}
	derived, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	require.Equal(t, err, derived.Err())
	require.Equal(t, cause, context.Cause(derived))
}

// goesOn checks what package context promises of one that has not.
func goesOn(t *testing.T, ctx context.Context) {
	t.Helper()
	require.NoError(t, ctx.Err())
	require.NoError(t, context.Cause(ctx))
}

// How a limiter looks at its context before it ends.
var looks = map[string]func(context.Context){
	"never":   func(context.Context) {},
	"Err":     func(ctx context.Context) { _ = ctx.Err() },
	"Done":    func(ctx context.Context) { _ = ctx.Done() },
	"Value":   func(ctx context.Context) { _ = ctx.Value(key{}) },
	"Cause":   func(ctx context.Context) { _ = context.Cause(ctx) },
	"derived": func(ctx context.Context) { context.AfterFunc(ctx, func() {}) },
	"watched": func(ctx context.Context) { _ = ending.Watch(ctx) },
}

func TestEnds(t *testing.T) {
	errOwn := errors.New("own")
	ends := []struct {
		name       string
		end        func(*ending.Source, context.CancelCauseFunc, *ending.Context)
		err, cause error
	}{
		{
			"source", func(s *ending.Source, _ context.CancelCauseFunc, _ *ending.Context) { s.End(errShut) },
			context.Canceled, errShut,
		},
		{
			"caller", func(_ *ending.Source, cancel context.CancelCauseFunc, _ *ending.Context) { cancel(errOwn) },
			context.Canceled, errOwn,
		},
	}
	for name, look := range looks {
		for _, e := range ends {
			t.Run(e.name+" after "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
					defer cancel(nil)
					var s ending.Source
					c := s.Begin(parent)
					look(c)
					goesOn(t, c)
					e.end(&s, cancel, c)
					ended(t, c, e.err, e.cause)
					// Whatever comes later changes nothing.
					s.End(errors.New("late"))
					cancel(errors.New("late"))
					c.Finish(false)
					ended(t, c, e.err, e.cause)
					require.Equal(t, "v", c.Value(key{}))
				})
			})
		}
	}
}

func TestKeptAfterTheCall(t *testing.T) {
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
			defer cancel()
			var s ending.Source
			kept := s.Begin(parent)
			look(kept)
			kept.Finish(false)
			require.Equal(t, context.Canceled, kept.Err())
			ended(t, kept, context.Canceled, context.Cause(kept))
			require.ErrorContains(t, context.Cause(kept), "has returned")
			require.Equal(t, "v", kept.Value(key{}))
			// A later call's context is another.
			later := s.Begin(t.Context())
			require.NotSame(t, kept, later)
			goesOn(t, later)
			later.Finish(true)
		})
	}
}

func TestForgottenIsUsedAgain(t *testing.T) {
	var s ending.Source
	c := s.Begin(t.Context())
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c.Finish(true)
		c = s.Begin(t.Context())
		_ = c.Err()
		_ = c.Value(key{})
	}))
}

func TestBegunAfterTheEnd(t *testing.T) {
	var s ending.Source
	require.NoError(t, s.Cause())
	require.True(t, s.End(errShut))
	require.False(t, s.End(errors.New("second")))
	require.Equal(t, errShut, s.Cause())
	c := s.Begin(t.Context())
	ended(t, c, context.Canceled, errShut)
	c.Finish(false)
}

func TestExplain(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	var s ending.Source
	c := s.Begin(parent)
	other := errors.New("other")
	require.Equal(t, context.Canceled, c.Explain(context.Canceled)) // the limiter's own
	s.End(errShut)
	require.Equal(t, errShut, c.Explain(context.Canceled))
	require.Equal(t, errShut, c.Explain(fmt.Errorf("wrapped: %w", context.Canceled)))
	require.Equal(t, other, c.Explain(other))
	require.NoError(t, c.Explain(nil))
	cancel()
	require.Equal(t, context.Canceled, c.Explain(context.Canceled))
	c.Finish(false)
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Second)
		parent, cancel := context.WithDeadline(t.Context(), at)
		defer cancel()
		var s ending.Source
		c := s.Begin(parent)
		got, ok := c.Deadline()
		require.True(t, ok)
		require.Equal(t, at, got)
		<-c.Done()
		require.Equal(t, at, time.Now())
		ended(t, c, context.DeadlineExceeded, context.DeadlineExceeded)
		c.Finish(false)
	})
}

func TestWaiting(t *testing.T) {
	told := 0
	s := ending.Source{Waiting: func() { told++ }}
	c := s.Begin(t.Context())
	_, _ = c.Err(), c.Value(key{})
	require.Zero(t, told)
	c.Done()
	require.Equal(t, 1, told)
	c.Finish(false)
	c.Done()
	require.Equal(t, 1, told)
}

// Whoever only watches does not wait, through any number of contexts.
func TestWatch(t *testing.T) {
	var s ending.Source
	told := 0
	inside := ending.Source{Waiting: func() { told++ }}
	c := s.Begin(t.Context())
	in := inside.Begin(c)
	last := inside.Begin(in)
	waited := func(want bool) {
		t.Helper()
		require.Equal(t, []bool{want, want, want}, []bool{c.Waited(), in.Waited(), last.Waited()})
	}
	_, _ = last.Err(), last.Value(key{})
	waited(false)
	require.False(t, last.Watched())
	done := ending.Watch(last)
	waited(false)
	require.True(t, c.Watched() && in.Watched() && last.Watched())
	require.NotZero(t, told)
	require.False(t, last.Unused())
	goesOn(t, last)
	require.Equal(t, done, ending.Watch(last))
	require.Equal(t, done, last.Done())
	waited(true)
	require.Equal(t, done, ending.Watch(last))
	s.End(errShut)
	<-done
	ended(t, last, context.Canceled, errShut)

	// One that was not watched before.
	c = s.Begin(t.Context())
	require.False(t, c.Waited())
	c.Done()
	require.True(t, c.Waited())
	require.False(t, c.Watched())
	require.Equal(t, t.Context().Done(), ending.Watch(t.Context()))
}

// odd is done and its channel never says so.
type odd struct{ context.Context }

func (odd) Err() error { return context.DeadlineExceeded }

func TestParentThatSaysDoneAndDoesNotCloseIt(t *testing.T) {
	var s ending.Source
	c := s.Begin(odd{t.Context()})
	ended(t, c, context.Canceled, context.DeadlineExceeded)
	c.Finish(false)
}

// hasty closes its channel and has no error.
type hasty struct{ context.Context }

func (hasty) Err() error { return nil }

func TestParentThatClosesItAndDoesNotSayDone(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	var s ending.Source
	early, late := s.Begin(hasty{done}), s.Begin(hasty{done})
	goesOn(t, early)
	_ = early.Done()
	cancel()
	<-early.Done()
	require.Equal(t, context.Canceled, early.Err())
	<-late.Done()
	require.Equal(t, context.Canceled, late.Err())
	early.Finish(false)
	late.Finish(false)
}

func TestStressEndAmidWaits(t *testing.T) {
	for range 500 {
		parent, cancel := context.WithCancel(t.Context())
		var s ending.Source
		var all sync.WaitGroup
		for i := range 6 {
			c := s.Begin(parent)
			all.Go(func() { // the limiter's own goroutine
				<-c.Done()
				if c.Err() == nil || context.Cause(c) == nil {
					t.Error("Done without Err")
				}
			})
			all.Go(func() {
				if i%2 == 0 {
					c.Finish(false)
				}
				for c.Err() == nil { // a limiter that polls
					<-c.Done()
				}
			})
		}
		all.Go(func() { s.End(errShut) })
		all.Go(cancel)
		all.Wait()
	}
}
