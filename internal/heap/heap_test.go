package heap_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/heap"
)

type item struct{ value, place int }

type byValue struct{}

func (byValue) Before(a, b *item) bool { return a.value < b.value }
func (byValue) Placed(v *item, i int)  { v.place = i }

type ascending struct{ heap.Unplaced[int] }

func (ascending) Before(a, b int) bool { return a < b }

// TestRandom plays random operations beside a sorted slice. Places are always those of the values.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h heap.Heap[*item, byValue]
	var all []*item
	for range 5_000 {
		switch n := r.IntN(10); {
		case n < 5 || len(all) == 0:
			it := &item{value: r.IntN(100)}
			all = append(all, it)
			h.Push(it)
		case n < 7:
			it := h.Pop()
			i := slices.Index(all, it)
			require.NotEqual(t, -1, i)
			all = slices.Delete(all, i, i+1)
			require.False(t, slices.ContainsFunc(all, func(other *item) bool { return other.value < it.value }))
		case n < 9:
			i := r.IntN(len(all))
			h.Remove(all[i].place)
			all = slices.Delete(all, i, i+1)
		default:
			it := all[r.IntN(len(all))]
			it.value = r.IntN(100)
			h.Fix(it.place)
		}
		require.Equal(t, len(all), h.Len())
		require.False(t, slices.ContainsFunc(all, func(it *item) bool { return h.At(it.place) != it || it.value < h.First().value }))
		if len(all) > 200 {
			for h.Len() > 0 {
				h.Pop()
			}
			all = nil
		}
	}
}

// TestWithoutPlaces: a heap of plain values sorts them.
func TestWithoutPlaces(t *testing.T) {
	var h heap.Heap[int, ascending]
	for _, n := range []int{5, 3, 9, 1, 3} {
		h.Push(n)
	}
	var sorted []int
	for h.Len() > 0 {
		sorted = append(sorted, h.Pop())
	}
	assert.Equal(t, []int{1, 3, 3, 5, 9}, sorted)
}
