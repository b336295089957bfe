package resilience_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/resilience"
)

type callerKey struct{}

func withCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, name)
}

func callerOf(ctx context.Context) string {
	name, _ := ctx.Value(callerKey{}).(string)
	return name
}

// perCaller has a limiter for each caller.
func perCaller(limit func(name string) (core.Limiter, error)) (*partition.Keyed[string, string], error) {
	return partition.New(partition.Options[string, string]{Key: func(name string) string { return name }, New: limit})
}

// one admits one function at a time.
func one(name string) (core.Limiter, error) {
	return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: name, PermitLimit: 1})
}

func TestKeyedKeepsCallersApart(t *testing.T) {
	callers := core.Must(perCaller(one))
	s := core.Must(resilience.Keyed(callers, callerOf, resilience.Options{Name: "caller"}))
	ann, bob := withCaller(t.Context(), "ann"), withCaller(t.Context(), "bob")
	require.NoError(t, s.Do(ann, func(context.Context) error {
		require.NoError(t, s.Do(bob, nothing))
		var r *resilience.RejectedError
		require.ErrorAs(t, s.Do(ann, never(t)), &r)
		assert.Equal(t, "caller", r.Strategy)
		name, _ := core.LimiterName.From(r.Lease)
		assert.Equal(t, "ann", name)
		return nil
	}))
	require.NoError(t, s.Do(ann, nothing))
	require.NoError(t, s.Close())
	assert.Equal(t, core.ErrClosed, s.Do(ann, never(t)))
	assert.True(t, partition.For(callers, "ann").TryAcquire(1).Acquired(), "the partitions are the caller's")
}

// answer is a third-party limiter of callers. It answers each request with a lease, and with no error.
type answer struct{ core.Lease }

func (a answer) TryAcquire(string, int) core.Lease { return a.Lease }

func (a answer) Acquire(context.Context, string, int) (core.Lease, error) { return a.Lease, nil }

func TestKeyedRunsNothingWithoutAPermit(t *testing.T) {
	s := core.Must(resilience.Keyed(answer{core.Fail(core.ErrRejected)}, callerOf, resilience.Options{}))
	require.ErrorIs(t, s.Do(t.Context(), never(t)), core.ErrRejected)
}

func TestBadKeyed(t *testing.T) {
	_, err := resilience.Keyed(nil, (func(context.Context) string)(nil), resilience.Options{Limiter: core.Unlimited()})
	for _, want := range []string{"the limiter is nil", "the function that finds the request is nil", "Options.Limiter is set"} {
		assert.ErrorContains(t, err, want)
	}
	_, err = resilience.Keyed((*partition.Keyed[string, string])(nil), callerOf, resilience.Options{})
	assert.ErrorContains(t, err, "the limiter is nil")
}

func ExampleKeyed() {
	callers := core.Must(perCaller(one))
	defer callers.Close()
	s := core.Must(resilience.Keyed(callers, callerOf, resilience.Options{}))
	ctx := withCaller(context.Background(), "ann")
	err := s.Do(ctx, func(context.Context) error { return nil })
	fmt.Println(err)
	// Output: <nil>
}
