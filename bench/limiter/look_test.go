package limiter

import (
	"testing"

	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
)

// looked keeps the results, so that the compiler cannot omit the calls.
var looked int

// BenchmarkAvailable asks how many permits are left.
func BenchmarkAvailable(b *testing.B) {
	look(b, func(l looker) int { return l.Available() })
}

// BenchmarkStatistics asks for all that is counted. The rival counts nothing, so it is asked
// how many permits are left.
func BenchmarkStatistics(b *testing.B) {
	look(b, func(l looker) int { return l.Statistics().Available })
}

type looker interface {
	core.Limiter
	core.Reporter
}

func look(b *testing.B, read func(looker) int) {
	b.Helper()
	ours := func(l func(b *testing.B) looker) func(b *testing.B) {
		return func(b *testing.B) {
			l := l(b)
			l.TryAcquire(1)
			for b.Loop() {
				looked += read(l)
			}
		}
	}
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice-bucket", Run: ours(func(b *testing.B) looker { return newBucket(b, plenty) })},
		sidebyside.Impl{Name: "sluice-fixed", Run: ours(func(b *testing.B) looker { return newFixedWindow(b, perSecond) })},
		sidebyside.Impl{Name: "sluice-sliding", Run: ours(func(b *testing.B) looker { return newSlidingWindow(b, perSecond) })},
		sidebyside.Impl{Name: "xtime-rate", Run: func(b *testing.B) {
			l := rate.NewLimiter(perSecond, plenty.burst)
			l.Allow()
			for b.Loop() {
				looked += int(l.Tokens())
			}
		}},
	)
}
