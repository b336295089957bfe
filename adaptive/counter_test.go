package adaptive_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
)

// called hides what an algorithm has beside Next.
type called struct{ adaptive.Algorithm }

// The algorithms of this package take most samples without a call of Next; the limit goes
// as if there were one for each.
func TestCountingIsCallingNext(t *testing.T) {
	for name, fresh := range map[string]func() adaptive.Algorithm{
		"gradient": adaptive.Gradient{}.New,
		"vegas":    adaptive.Vegas{}.New,
		"aimd":     adaptive.AIMD{Timeout: 30 * time.Millisecond}.New,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// New asks Gradient and the like for one of the limiter's own; these have none.
				counting, err := adaptive.New(adaptive.Options{Max: 60, Algorithm: fresh()})
				require.NoError(t, err)
				calling, err := adaptive.New(adaptive.Options{Max: 60, Algorithm: called{fresh()}})
				require.NoError(t, err)
				time.Sleep(time.Minute) // so that it matters since when instants count
				r := rand.New(rand.NewPCG(7, 7))
				var held [][2]core.Lease
				changes, last := 0, counting.Limit()
				for i := range 40_000 {
					target, pause := r.IntN(40), r.IntN(200*(len(held)+1))
					if i > 10_000 { // there is always one more, and room for all
						target, pause = 100, r.IntN(20_000/(len(held)+1))
					}
					for len(held) < target {
						a, b := counting.TryAcquire(1), calling.TryAcquire(1)
						require.Equal(t, b.Acquired(), a.Acquired())
						if !a.Acquired() {
							break
						}
						held = append(held, [2]core.Lease{a, b})
					}
					time.Sleep(time.Duration(pause) * time.Microsecond)
					if len(held) == 0 {
						continue
					}
					n := r.IntN(len(held)) // some are left over for long
					pair := held[n]
					held = slices.Delete(held, n, n+1)
					if r.IntN(2000) == 0 {
						counting.Drop(pair[0])
						calling.Drop(pair[1])
					} else {
						pair[0].Release()
						pair[1].Release()
					}
					require.Equal(t, calling.Limit(), counting.Limit())
					if limit := counting.Limit(); limit != last {
						changes, last = changes+1, limit
					}
				}
				require.Greater(t, changes, 10)
			})
		})
	}
}
