package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeap compares random pushes, pops and changes of the first element with a sorted slice.
func TestHeap(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	h := NewHeap(func(a, b *int) bool { return *a < *b })
	var want []int
	insert := func(v int) {
		i, _ := slices.BinarySearch(want, v)
		want = slices.Insert(want, i, v)
	}
	for range 10_000 {
		v := r.IntN(1000)
		switch op := r.IntN(6); {
		case op < 3:
			insert(v)
			h.Push(&v)
		case len(want) == 0:
		case op == 3:
			want = want[1:]
			insert(v)
			*h.First() = v
			h.Fix()
		default:
			require.Equal(t, want[0], *h.First(), "seed %d", seed)
			require.Equal(t, want[0], *h.Pop(), "seed %d", seed)
			want = want[1:]
		}
		require.Equal(t, len(want), h.Len())
	}
}
