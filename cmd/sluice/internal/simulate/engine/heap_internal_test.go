package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ascending(a, b int) bool { return a < b }

// TestPopsInOrder compares random pushes and pops with a sorted slice.
func TestPopsInOrder(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	h := NewHeap(ascending)
	var want []int
	for range 10_000 {
		if r.IntN(5) < 3 {
			v := r.IntN(1000)
			h.Push(v)
			i, _ := slices.BinarySearch(want, v)
			want = slices.Insert(want, i, v)
		} else if len(want) > 0 {
			require.Equal(t, want[0], h.First(), "seed %d", seed)
			require.Equal(t, want[0], h.Pop(), "seed %d", seed)
			want = want[1:]
		}
		require.Equal(t, len(want), h.Len())
	}
}

// TestFix moves the first element to its place after it has changed.
func TestFix(t *testing.T) {
	h := NewHeap(func(a, b *int) bool { return *a < *b })
	for _, v := range []int{5, 1, 4, 2, 3} {
		h.Push(&v)
	}
	*h.First() = 6
	h.Fix()
	var got []int
	for h.Len() > 0 {
		got = append(got, *h.Pop())
	}
	assert.Equal(t, []int{2, 3, 4, 5, 6}, got)
}
