package core_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// Release, refund and settle race on copies of a lease that holds permits: one of them wins, and in
// the end everything is back.
func TestStressSettle(t *testing.T) {
	const limit = 50
	for _, name := range []string{"concurrency", "chain", "metadata"} {
		t.Run(name, func(t *testing.T) {
			var l everything = concurrency(t, limit, 0)
			if name == "chain" {
				l = chain(t, l, chain(t, concurrency(t, limit, 0), concurrency(t, limit+1, 0)))
			}
			for round := range testkit.Rounds(2000) {
				lease := l.TryAcquire(2)
				if !lease.Acquired() {
					t.Fatal("lost permits", lease.Err())
				}
				if name == "metadata" {
					lease = lease.With(core.ReasonPhrase.With("kept"))
				}
				var wins atomic.Int32
				var group sync.WaitGroup
				for i := range 3 {
					group.Go(func() { raceFor(l, lease, (round+i)%4, &wins) })
				}
				group.Wait()
				if n := wins.Load(); n > 1 {
					t.Fatalf("settled %d times", n)
				}
				if l.Available() != limit {
					t.Fatalf("%d available in round %d", l.Available(), round)
				}
			}
			available(t, l, limit)
		})
	}
}

// raceFor does one of the things that end a lease, and gives back what it got by that.
func raceFor(l everything, lease core.Lease, what int, wins *atomic.Int32) {
	switch what {
	case 0:
		lease.Release()
	case 1:
		l.Refund(lease)
	default:
		n := map[int]int{2: 1, 3: 5}[what]
		settled := l.Settle(lease, n)
		if settled.Permits() != n {
			return // it lost
		}
		wins.Add(1)
		if rand.IntN(2) == 0 {
			settled = l.Settle(settled, n+1)
		}
		l.Refund(settled)
		settled.Release()
		l.Refund(settled)
	}
}

// Many settle at once, up and down, while others wait: nothing is lost.
func TestStressSettleAndWait(t *testing.T) {
	const limit, workers = 4, 6
	inner := concurrency(t, limit, 1000)
	for name, l := range map[string]everything{"concurrency": inner, "chain": chain(t, inner), "view": core.WithReason(inner, "full").(everything)} {
		t.Run(name, func(t *testing.T) {
			var group sync.WaitGroup
			for w := range workers {
				group.Go(func() {
					random := rand.New(rand.NewPCG(uint64(w), 11))
					for range testkit.Rounds(1000) {
						lease, err := l.Acquire(t.Context(), random.IntN(limit+1))
						if err != nil {
							t.Error(err)
							return
						}
						for range random.IntN(4) {
							lease = l.Settle(lease, random.IntN(2*limit))
						}
						if random.IntN(2) == 0 {
							l.Refund(lease)
						}
						lease.Release()
					}
				})
			}
			group.Wait()
			available(t, l, limit)
			require.Zero(t, l.Statistics().Queued)
		})
	}
}
