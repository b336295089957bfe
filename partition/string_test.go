package partition_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// What is in use may be printed: a line, and no data race.
func TestStringsUnderLoad(t *testing.T) {
	k := newKeyed(t, options{Name: "api", MaxPartitions: 50, Overflow: bare{semaphore("", 3)}})
	chain, err := partition.Chain[string](k, partition.Shared[string](bare{semaphore("", 5)}), own{core.Unlimited()})
	require.NoError(t, err)
	printed := []any{
		k, chain, partition.Shared[string](semaphore("", 1)), partition.Translate[string](k, self),
		partition.For[string](k, "1"), partition.For[string](k, "none"), partition.For(chain, "1"),
		partition.For[string](own{semaphore("", 1)}, "1"),
		partition.For[string](nil, "1"), partition.Shared[string](nil),
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 500 {
				chain.TryAcquire(strconv.Itoa((i+w)%100), 1).Release()
			}
		})
	}
	for range 50 {
		for _, p := range printed {
			line := fmt.Sprintln(p)
			require.Less(t, len(line), 300)
			require.NotContains(t, line, "{")
		}
	}
	wg.Wait()
}

func TestString(t *testing.T) {
	k := newKeyed(t, options{Name: "api", MaxPartitions: 1})
	takes(t, k, "secret", 1)
	refused(t, k, "b", 1, core.ErrRejected)
	require.Equal(t, `partitions "api": 1 live, 1 created, 0 dropped, 1 overflowed`, k.String())
	live, gone := fmt.Sprint(partition.For[string](k, "secret")), fmt.Sprint(partition.For[string](k, "b"))
	require.Contains(t, live, `one of partitions "api": `)
	require.Equal(t, `one of partitions "api": not live`, gone)
	require.Equal(t, 1, k.Len(), "none was made")

	k = newKeyed(t, options{})
	require.Equal(t, "partitions: 0 live, 0 created, 0 dropped, 0 overflowed", k.String())
	chain := must(partition.Chain[string](k, partition.Shared[string](bare{})))
	require.Equal(t, "chain of "+k.String()+", shared partition_test.bare", fmt.Sprint(chain))
	require.Equal(t, "translated "+k.String(), fmt.Sprint(partition.Translate[string](k, self)))
	require.Equal(t, "partitions: 0 live, 0 created, 0 dropped, 0 overflowed", new(keyed).String())
}
