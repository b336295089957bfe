package list_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/list"
)

// Any sequence of pushes and removals has the outcome that it has for a slice.
func FuzzList(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 1, 1, 4, 0, 3, 2})
	f.Add([]byte{5, 6, 7, 6, 5, 7, 5})
	f.Fuzz(func(t *testing.T, calls []byte) {
		var l list.List[byte]
		var want []byte
		nodes := make([]list.Node[byte], 8)
		for _, c := range calls {
			n := &nodes[c%8]
			n.Value = c % 8
			if i := slices.Index(want, n.Value); i >= 0 {
				n.Remove()
				want = slices.Delete(want, i, i+1)
			} else {
				n.Remove() // no effect
				l.Push(n)
				want = append(want, n.Value)
			}
			var got []byte
			for n := l.First(); n != nil; n = n.Next() {
				got = append(got, n.Value)
			}
			require.True(t, slices.Equal(want, got))
			require.Equal(t, len(want), l.Len())
			if len(want) > 0 {
				require.Equal(t, want[len(want)-1], l.Last().Value)
			} else {
				require.Nil(t, l.Last())
			}
		}
	})
}
