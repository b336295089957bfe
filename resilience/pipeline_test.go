package resilience_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/resilience"
)

// refusing returns a strategy that refuses.
func refusing(t *testing.T, name string) *resilience.Strategy {
	t.Helper()
	s := made(resilience.New(resilience.Options{Name: name, Limiter: bucket(t, 1, time.Hour)}))
	require.NoError(t, s.Do(t.Context(), nothing))
	return s
}

func pipeline(t *testing.T, name, instance string, es ...resilience.Executor) resilience.Executor {
	t.Helper()
	p, err := resilience.Pipeline(resilience.PipelineOptions{Name: name, Instance: instance}, es...)
	require.NoError(t, err)
	return p
}

// spy is somebody's own executor; it may hold another.
type spy struct {
	note func()
	held resilience.Executor
}

func (s spy) Do(ctx context.Context, f func(context.Context) error) error {
	if s.note != nil {
		s.note()
	}
	if s.held != nil {
		return s.held.Do(ctx, f)
	}
	return f(ctx)
}

func TestPipelineRunsOutermostFirst(t *testing.T) {
	var order []string
	note := func(s string) spy { return spy{note: func() { order = append(order, s) }} }
	p := pipeline(t, "p", "", note("a"), made(resilience.New(resilience.Options{})), pipeline(t, "q", "", note("b"), note("c")), note("d"))
	v, err := resilience.Execute(t.Context(), p, func(context.Context) (string, error) { return "result", nil })
	require.NoError(t, err)
	assert.Equal(t, "result", v)
	assert.Equal(t, []string{"a", "b", "c", "d"}, order)
}

func TestStrategyTakesThePipelinesName(t *testing.T) {
	calls := func(e resilience.Executor) func(context.Context) error {
		return func(ctx context.Context) error { return e.Do(ctx, never(t)) }
	}
	s := refusing(t, "")
	free := made(resilience.New(resilience.Options{}))
	for name, c := range map[string]struct {
		e    resilience.Executor
		f    func(context.Context) error
		want string
	}{
		"alone":               {s, never(t), "(null)/(null)/RateLimiter"},
		"in a pipeline":       {pipeline(t, "p", "1", free, s), never(t), "p/1/RateLimiter"},
		"without instance":    {pipeline(t, "p", "", s), never(t), "p/(null)/RateLimiter"},
		"in two pipelines":    {pipeline(t, "outer", "1", pipeline(t, "inner", "2", s)), never(t), "inner/2/RateLimiter"},
		"no name inside":      {pipeline(t, "outer", "1", pipeline(t, "", "", s)), never(t), "(null)/(null)/RateLimiter"},
		"beside a pipeline":   {pipeline(t, "outer", "1", pipeline(t, "inner", "2", free), s), never(t), "outer/1/RateLimiter"},
		"merely called":       {pipeline(t, "p", "1", free), calls(s), "(null)/(null)/RateLimiter"},
		"called under a spy":  {pipeline(t, "p", "1", spy{}), calls(s), "(null)/(null)/RateLimiter"},
		"held by a spy":       {pipeline(t, "p", "1", free, spy{held: s}), never(t), "p/1/RateLimiter"},
		"behind a spy":        {pipeline(t, "p", "1", spy{}, s), never(t), "p/1/RateLimiter"},
		"a pipeline in a spy": {pipeline(t, "p", "1", spy{held: pipeline(t, "q", "2", s)}), never(t), "q/2/RateLimiter"},
	} {
		t.Run(name, func(t *testing.T) {
			var r *resilience.RejectedError
			require.ErrorAs(t, c.e.Do(t.Context(), c.f), &r)
			assert.Equal(t, c.want, r.Source.String())
		})
	}
}

func TestSourceString(t *testing.T) {
	assert.Equal(t, "(null)/(null)/(null)", resilience.Source{}.String())
	assert.Equal(t, "a/b/c", resilience.Source{Pipeline: "a", Instance: "b", Strategy: "c"}.String())
}

func TestBadPipelines(t *testing.T) {
	_, err := resilience.Pipeline(resilience.PipelineOptions{})
	assert.Error(t, err)
	_, err = resilience.Pipeline(resilience.PipelineOptions{}, nil, refusing(t, ""), (*resilience.Strategy)(nil))
	assert.ErrorContains(t, err, "executor 0")
	assert.ErrorContains(t, err, "executor 2")
	for _, e := range []resilience.Executor{nil, (*resilience.Strategy)(nil)} {
		_, err = resilience.Execute(t.Context(), e, func(context.Context) (int, error) { return 1, nil })
		assert.ErrorContains(t, err, "nil")
	}
}

// Who stops waiting for the function returns before it: no result, and no race.
func TestExecuteByWayOfTheImpatient(t *testing.T) {
	boom := errors.New("too slow")
	end, ended := make(chan struct{}), make(chan struct{})
	v, err := resilience.Execute(t.Context(), impatient{boom, ended}, func(context.Context) (int, error) {
		<-end
		return 1, nil
	})
	assert.Same(t, boom, err)
	assert.Zero(t, v)
	close(end)
	<-ended
}

type impatient struct {
	err   error
	ended chan struct{}
}

func (i impatient) Do(ctx context.Context, f func(context.Context) error) error {
	go func() {
		defer close(i.ended)
		_ = f(ctx)
	}()
	return i.err
}
