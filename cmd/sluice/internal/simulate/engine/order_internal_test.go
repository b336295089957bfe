package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOrder(t *testing.T) {
	for _, test := range []struct {
		name     string
		at, took []int64
		want     []int64
	}{
		{"lines at the end", []int64{5, 1, 3, 9}, []int64{1, 6, 5, 1}, []int64{1, 3, 5, 9}},
		{"without durations nothing is held back", []int64{5, 1, 3}, []int64{0, 0, 0}, []int64{5, 1, 3}},
		{"later than what is out", []int64{5, 1}, []int64{0, 4}, []int64{5, 5}},
		{"equal times keep their order", []int64{1, 1, 1}, []int64{3, 2, 1}, []int64{1, 1, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := NewOrder()
			var got, took []int64
			each := func(q Request) error {
				got, took = append(got, q.At), append(took, q.Took)
				return nil
			}
			for i := range test.at {
				require.NoError(t, o.Add(Request{At: test.at[i], Took: test.took[i]}, each))
			}
			require.NoError(t, o.End(each))
			assert.Equal(t, test.want, got)
			if test.name == "equal times keep their order" {
				assert.Equal(t, test.took, took)
			}
		})
	}
}

// TestOrderIsBounded: it holds back no more than mostHeld requests, and what comes too late for that comes with the ones
// before it.
func TestOrderIsBounded(t *testing.T) {
	o := NewOrder()
	var got []int64
	each := func(q Request) error {
		got = append(got, q.At)
		return nil
	}
	for i := range int64(mostHeld + 10) {
		require.NoError(t, o.Add(Request{At: 100 + i, Took: 1}, each))
	}
	assert.Len(t, got, 10)
	require.NoError(t, o.Add(Request{At: 1, Took: 1000}, each))
	assert.Equal(t, int64(109), got[10])
}
