package limiter

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
)

// looked keeps the results, so that the compiler cannot omit the calls.
var looked int

// BenchmarkCalendar compares windows of the calendar with windows of a length.
func BenchmarkCalendar(b *testing.B) {
	const plenty = 1 << 40
	ctx := b.Context()
	for _, work := range []struct {
		name    string
		permits int
		do      func(*core.FixedWindow)
	}{
		{"grant", plenty, func(l *core.FixedWindow) { l.TryAcquire(1) }},
		{"rejection", 1, func(l *core.FixedWindow) { l.TryAcquire(1) }},
		{"Acquire", plenty, func(l *core.FixedWindow) { _, _ = l.Acquire(ctx, 1) }},
		{"Available", plenty, func(l *core.FixedWindow) { looked += l.Available() }},
		{"Refund", plenty, func(l *core.FixedWindow) { l.Refund(l.TryAcquire(1)) }}, // of a grant, whose cost is in both
	} {
		run := func(o core.FixedWindowOptions) func(b *testing.B) {
			return func(b *testing.B) {
				o.PermitLimit = work.permits
				l, err := core.NewFixedWindow(o)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = l.Close() })
				l.TryAcquire(1)
				for b.Loop() {
					work.do(l)
				}
			}
		}
		b.Run("work="+work.name, func(b *testing.B) {
			sidebyside.Compare(b,
				sidebyside.Impl{Name: "sluice-fixed", Run: run(core.FixedWindowOptions{Window: 365 * 24 * time.Hour})},
				sidebyside.Impl{Name: "sluice-calendar", Run: run(core.FixedWindowOptions{Calendar: core.Yearly(time.UTC)})},
			)
		})
	}
}
