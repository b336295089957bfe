// Package adaptive compares limiters that find their limits themselves: what a grant and a
// release cost, learning included.
package adaptive

import (
	"testing"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
)

func TestMain(m *testing.M) {
	sidebyside.RunByDefault()
	goleak.VerifyTestMain(m)
}

// ours returns a function that takes a permit and gives it back, and reports whether it was
// there.
func ours(b *testing.B, a adaptive.Algorithm) func() bool {
	b.Helper()
	l, err := adaptive.New(adaptive.Options{Initial: 100, Algorithm: a})
	if err != nil {
		b.Fatal(err)
	}
	return func() bool {
		lease := l.TryAcquire(1)
		lease.Release()
		return lease.Acquired()
	}
}

func fixed(b *testing.B) func() bool {
	b.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 100})
	if err != nil {
		b.Fatal(err)
	}
	return func() bool {
		lease := l.TryAcquire(1)
		lease.Release()
		return lease.Acquired()
	}
}

func failsafe(*testing.B) func() bool {
	l := adaptivelimiter.NewBuilder[any]().WithLimits(1, 1000, 100).Build()
	return func() bool {
		permit, ok := l.TryAcquirePermit()
		if ok {
			permit.Record()
		}
		return ok
	}
}

// impls makes each implementation anew and has it measured.
func impls(measure func(b *testing.B, take func() bool)) []sidebyside.Impl {
	run := func(of func(b *testing.B) func() bool) func(b *testing.B) {
		return func(b *testing.B) { measure(b, of(b)) }
	}
	return []sidebyside.Impl{
		{Name: "sluice", Run: run(func(b *testing.B) func() bool { return ours(b, adaptive.Gradient{}) })},
		{Name: "sluice-aimd", Run: run(func(b *testing.B) func() bool { return ours(b, adaptive.AIMD{}) })},
		{Name: "core-fixed", Run: run(fixed)},
		{Name: "failsafe-adaptive", Run: run(failsafe)},
	}
}

// BenchmarkGrantRelease takes a permit that is there and gives it back.
func BenchmarkGrantRelease(b *testing.B) {
	sidebyside.Compare(b, impls(func(b *testing.B, take func() bool) {
		for b.Loop() {
			if !take() {
				b.Fatal("refused")
			}
		}
	})...)
}

// BenchmarkGrantReleaseAllCores is the same from all cores.
func BenchmarkGrantReleaseAllCores(b *testing.B) {
	sidebyside.Compare(b, impls(func(b *testing.B, take func() bool) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				take()
			}
		})
	})...)
}
