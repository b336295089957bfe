package partition_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

func ExampleByKey() {
	users, err := partition.ByKey(func(string) (core.Limiter, error) {
		return core.NewTokenBucket(core.PerSecond(10, 2))
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(users.TryAcquire("ann", 2).Acquired(), users.TryAcquire("ann", 1).Acquired(), users.TryAcquire("bob", 1).Acquired())
	// Output: true false true
}

func TestByKeyOfNothing(t *testing.T) {
	_, err := partition.ByKey[int](nil)
	require.EqualError(t, err, "partition: Options.New = nil, want a function")
}

func TestErrFull(t *testing.T) {
	k := newKeyed(t, options{MaxPartitions: 1})
	takes(t, k, "a", 1)
	refused(t, k, "b", 1, partition.ErrFull)
	refused(t, k, "b", 1, core.ErrRejected)
	require.NotErrorIs(t, k.TryAcquire("a", 1).Err(), partition.ErrFull)
	require.EqualError(t, k.TryAcquire("b", 1).Err(), "core: rejected: partition limit reached")
}

// A limiter that stands twice in a chain would wait for itself.
func TestChainOfALimiterTwice(t *testing.T) {
	l := semaphore("all", 1)
	k := newKeyed(t, options{})
	shared := partition.Shared[string](l)
	inner, err := partition.Chain(shared)
	require.NoError(t, err)
	chained, err := core.Chain(l)
	require.NoError(t, err)
	for _, second := range []partition.Limiter[string]{
		shared, partition.Shared[string](l), partition.Shared[string](core.WithReason(l, "busy")), partition.Shared[string](chained), inner,
	} {
		_, err := partition.Chain(shared, second)
		require.ErrorContains(t, err, "partition: Chain limiter 1 asks the same limiter as limiter 0, ")
	}
	_, err = partition.Chain[string](k, shared, k)
	require.ErrorContains(t, err, "partition: Chain limiter 2 asks the same limiter as limiter 0, ")
	_, err = partition.Chain(partition.Translate(partition.Limiter[string](k), self), partition.Translate(partition.Limiter[string](k), self), shared, partition.Shared[string](semaphore("all", 1)))
	require.NoError(t, err)
}
