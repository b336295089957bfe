package partitions

import (
	"testing"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

// each puts the implementations next to each other, with the keys there.
func each(b *testing.B, keys []string, run func(b *testing.B, take func(string) bool)) {
	b.Helper()
	var impls []sidebyside.Impl
	for _, w := range ways(b) {
		for _, key := range keys {
			if !w.take(key) {
				b.Fatal(w.name, "refused")
			}
		}
		impls = append(impls, sidebyside.Impl{Name: w.name, Run: func(b *testing.B) { run(b, w.take) }})
	}
	sidebyside.Compare(b, impls...)
}

// BenchmarkLiveKey takes a permit of a key that is there: of one, or of the next of many.
func BenchmarkLiveKey(b *testing.B) {
	for _, n := range sidebyside.Sizes(1, 1000, 1_000_000) {
		keys := names(n)
		sidebyside.Over(b, "keys", []int{n}, func(b *testing.B, _ int) {
			each(b, keys, func(b *testing.B, take func(string) bool) {
				refused, i := 0, 0
				for b.Loop() {
					if !take(keys[i]) {
						refused++
					}
					i++
					if i == n {
						i = 0
					}
				}
				if refused > 0 {
					b.Fatal(refused, "refused")
				}
			})
		})
	}
}
