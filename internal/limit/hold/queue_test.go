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
	type section struct {
		mode   core.QueueOrder
		places []*hold.Place[int]
	}
	random := rand.New(rand.NewPCG(1, 2))
	var q hold.Queue[int]
	var model []*section
	mode, next, n := core.OldestFirst, 0, 0
	for range 200_000 {
		for len(model) > 1 && len(model[0].places) == 0 {
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
			p := &hold.Place[int]{Value: next}
			next++
			n++
			s := model[len(model)-1]
			s.places = append(s.places, p)
			q.Push(p, 1, hold.Rank{Mode: mode})
			require.True(t, p.Queued())
		case 4, 5, 6:
			if n == 0 {
				continue
			}
			s := model[0]
			i := 0
			if s.mode == core.NewestFirst {
				i = len(s.places) - 1
			}
			want := s.places[i]
			s.places = slices.Delete(s.places, i, i+1)
			n--
			require.Same(t, want, q.Pop())
			require.False(t, want.Queued())
		default:
			s := &section{}
			if len(model) > 0 {
				s = model[random.IntN(len(model))]
			}
			if len(s.places) == 0 {
				continue
			}
			i := random.IntN(len(s.places))
			p := s.places[i]
			s.places = slices.Delete(s.places, i, i+1)
			n--
			p.Remove()
			p.Remove()
		}
		require.Equal(t, n, q.Len())
	}
}
