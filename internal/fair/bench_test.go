package fair_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/sluice-go/sluice/internal/fair"
)

// BenchmarkQueue is an arrival, and a grant or a cancellation, among 100,000 waiters.
func BenchmarkQueue(b *testing.B) {
	const waiters = 100_000
	for _, flows := range []int{1, 100, 10_000} {
		for _, end := range []string{"grant", "cancel"} {
			b.Run(fmt.Sprintf("end=%s/flows=%d", end, flows), func(b *testing.B) {
				var q fair.Queue[int]
				items := make([]fair.Item[int], waiters)
				names := make([]fair.Flow, flows)
				for i := range names {
					names[i] = fair.Flow{Key: strconv.Itoa(i), Weight: 1 + i%7}
				}
				for i := range items {
					items[i] = fair.Item[int]{N: 1 + i%5, Value: i % flows}
					q.Push(&items[i], names[i%flows])
				}
				random := rand.New(rand.NewPCG(1, 2))
				b.ReportAllocs()
				for b.Loop() {
					it := q.Next()
					if end == "grant" {
						q.Take(it)
					} else {
						it = &items[random.IntN(waiters)]
						q.Remove(it)
					}
					q.Push(it, names[random.IntN(flows)])
				}
			})
		}
	}
}
