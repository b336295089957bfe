package redislimit

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/calendar"
)

// Windows of the calendar. The server's clock decides which window it is, and the callers know where windows
// begin: each call has the boundaries around the instant that the caller takes for the server's. If the server's is
// in none of these windows, it does nothing but say so, and the call is made once more.

// forgetAfter is how long a rejection by a calendar's window is remembered: its window may last for a year, and
// its permits may be given back by others.
const forgetAfter = time.Minute

// boundariesAt is where a call's arguments have the boundaries.
const boundariesAt = 6

// byCalendar puts a calendar into the limits. The span is the length of the window of now, to estimate by.
func (l *limits) byCalendar(c core.Calendar) {
	l.calendar = c
	start, end := c.Bounds(time.Now())
	l.step, l.span = 1, int64(end.Sub(start)/time.Microsecond)
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.String()))
	l.origin = int64(h.Sum64() & (1<<52 - 1))
}

// ofCalendar reports whether it is a window of the calendar.
func (l *limits) ofCalendar() bool { return l.calendar != core.Calendar{} }

// around appends the boundaries of the window of an instant and of the windows beside it.
func (l *limits) around(args []int64, at time.Time) []int64 {
	start, end := l.calendar.Bounds(at)
	before, _ := l.calendar.Bounds(start.Add(-1))
	_, after := l.calendar.Bounds(end)
	return append(args, max(before.UnixMicro(), 0), start.UnixMicro(), end.UnixMicro(), after.UnixMicro())
}

// again returns the arguments with which a call has to be made once more, after the reply; nil: it has not.
func (l *limits) again(args, reply []int64) []int64 {
	if !outside(reply) {
		return nil
	}
	args = slices.Clone(args)
	l.around(args[:boundariesAt], time.UnixMicro(reply[1]))
	return args
}

// outside reports whether a script says that its instant is in none of the windows.
func outside(reply []int64) bool { return len(reply) == 2 && reply[0] == 0 }

// lengthOf returns the length of the window that ends at a server's instant, in microseconds.
func (l *limits) lengthOf(end int64) int64 {
	start, _ := l.calendar.Bounds(time.UnixMicro(end - 1))
	return end - start.UnixMicro()
}

// next returns the microseconds from an instant, which is a boundary, to the n-th boundary after it.
func (l *limits) next(boundary, n int64) int64 {
	const unit = int64(time.Second / time.Microsecond)
	at := calendar.Calendar(l.calendar).After(boundary/unit, uint64(n))
	if at > most/unit {
		return never
	}
	return at*unit - boundary
}

// windowOf returns the length of a calendar's window; micros 0: that of now.
func (l *limits) windowOf(micros int64) time.Duration {
	if micros == 0 {
		start, end := l.calendar.Bounds(time.Now())
		return end.Sub(start)
	}
	return lasts(micros)
}
