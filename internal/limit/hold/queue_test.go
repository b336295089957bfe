package hold_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
)

// Random pushes, pops and removals do the same to a queue as to a list of sections.
func TestQueueOfRandomOrders(t *testing.T) {
	type value struct{ place hold.Place[*value] }
	type section struct {
		mode   core.QueueOrder
		values []*value
	}
	random := rand.New(rand.NewPCG(1, 2))
	var q hold.Queue[*value]
	var model []*section
	mode, n := core.OldestFirst, 0
	for range 200_000 {
		for len(model) > 1 && len(model[0].values) == 0 {
			model = model[1:]
		}
		switch random.IntN(10) {
		case 0, 1, 2, 3:
			if random.IntN(100) == 0 {
				mode = core.NewestFirst - mode
			}
			if last := len(model) - 1; last < 0 || model[last].mode != mode {
				model = append(model, &section{mode: mode})
			}
			v := new(value)
			n++
			s := model[len(model)-1]
			s.values = append(s.values, v)
			q.Push(&v.place, v, 1, hold.Rank{Mode: mode})
			require.True(t, v.place.Queued())
		case 4, 5, 6:
			if n == 0 {
				continue
			}
			s := model[0]
			i := 0
			if s.mode == core.NewestFirst {
				i = len(s.values) - 1
			}
			want := s.values[i]
			s.values = slices.Delete(s.values, i, i+1)
			n--
			require.Same(t, want, q.Pop())
			require.False(t, want.place.Queued())
		default:
			s := &section{}
			if len(model) > 0 {
				s = model[random.IntN(len(model))]
			}
			if len(s.values) == 0 {
				continue
			}
			i := random.IntN(len(s.values))
			v := s.values[i]
			s.values = slices.Delete(s.values, i, i+1)
			n--
			q.Remove(&v.place)
			q.Remove(&v.place)
		}
		require.Equal(t, n, q.Len())
	}
}
