package limiter

import (
	"strconv"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

// BenchmarkHeld takes a permit and gives it back while others are held: as many leases of
// ours, as many permits of the semaphore's.
func BenchmarkHeld(b *testing.B) {
	for _, held := range sidebyside.Sizes(0, 1, 10, 1000, 10_000, 100_000) {
		b.Run("held="+strconv.Itoa(held), func(b *testing.B) {
			sidebyside.Compare(b,
				sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
					l := newConcurrency(b, held+enough)
					for range held {
						l.TryAcquire(1)
					}
					spread(b, 1, func(n int) (refused int) {
						for range n {
							lease := l.TryAcquire(1)
							if !lease.Acquired() {
								refused++
							}
							lease.Release()
						}
						return refused
					})
				}},
				sidebyside.Impl{Name: "xsync-semaphore", Run: func(b *testing.B) {
					s := semaphore.NewWeighted(int64(held + enough))
					s.TryAcquire(int64(held))
					spread(b, 1, func(n int) (refused int) {
						for range n {
							if !s.TryAcquire(1) {
								refused++
								continue
							}
							s.Release(1)
						}
						return refused
					})
				}},
			)
		})
	}
}
