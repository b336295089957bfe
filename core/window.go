package core

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// windowed is what the two windows share.
type windowed struct {
	rate
	segments machine.Segments
}

// ReplenishmentPeriod returns the time from one replenishment to the next: the length of the
// window, or of its segment, rounded down to the nanosecond.
func (l *windowed) ReplenishmentPeriod() time.Duration {
	t := l.inForce()
	if t.Calendar != nil {
		now := l.lock()
		t = l.settings.Load()
		l.unlock(now)
	}
	return time.Duration(t.Span / int64(max(t.Step, 1)))
}

func (l *windowed) describeWindow(kind string) string {
	t := l.inForce()
	if t.Calendar != nil {
		return l.describe(kind + " of a " + t.calendar.String())
	}
	kind += " of " + time.Duration(t.Span).String()
	if t.Step > 1 {
		kind += fmt.Sprintf(" in %d segments", t.Step)
	}
	return l.describe(kind)
}
