package redislimit

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/calendar"
)

// Calendar windows. The server's clock decides which window is current, but only callers know where windows start. Each call has
// the boundaries around the time at which the caller believes the server to be, and of the windows in which tickets may be due. If the
// server is in none of these windows, it does nothing, and the call is made again with the right boundaries.

const (
	boundariesAt = 6  // index of the boundaries in a call's arguments
	windows      = 12 // windows in a call: the one before the current, that one, and 10 more; a waiter of a later one has no ticket
)

// byCalendar puts a calendar into the limits. The span is the length of the current window, for estimates.
func (l *limits) byCalendar(c core.Calendar) {
	l.calendar = c
	start, end := c.Bounds(time.Now())
	l.step, l.span = 1, int64(end.Sub(start)/time.Microsecond)
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.String()))
	l.origin = int64(h.Sum64() & (1<<52 - 1))
}

// ofCalendar reports whether it is a calendar window.
func (l *limits) ofCalendar() bool { return l.calendar != core.Calendar{} }

// around appends the boundaries of the windows around a given time.
func (l *limits) around(args []int64, at time.Time) []int64 {
	start, end := l.calendar.Bounds(at)
	before, _ := l.calendar.Bounds(start.Add(-1))
	args = append(args, max(before.UnixMicro(), 0), start.UnixMicro(), end.UnixMicro())
	for range windows - 2 {
		_, end = l.calendar.Bounds(end)
		args = append(args, end.UnixMicro())
	}
	return args
}

// corrected returns the arguments of a call with the windows around the time of its reply.
func (l *limits) corrected(args, reply []int64) []int64 {
	args = slices.Clone(args)
	l.around(args[:boundariesAt], time.UnixMicro(reply[1]))
	return args
}

// again reports whether the reply says that the script has performed nothing and is to be run again; the heads of the scripts say when.
func again(reply []int64) bool { return len(reply) == 2 && reply[0] == 0 }

// lengthOf returns the length of the window that ends at a server's instant, in microseconds.
func (l *limits) lengthOf(end int64) int64 {
	start, _ := l.calendar.Bounds(time.UnixMicro(end - 1))
	return end - start.UnixMicro()
}

// windowsAfter returns the microseconds from a time at which permits come back to the end of the n-th window after it.
func (l *limits) windowsAfter(at, n int64) int64 {
	if !l.ofCalendar() {
		if n > never/l.span {
			return never
		}
		return n * l.span
	}
	const unit = int64(time.Second / time.Microsecond)
	end := calendar.Calendar(l.calendar).After(at/unit, uint64(n))
	if end > maxNumber/unit {
		return never
	}
	return end*unit - at
}

// windowOf returns micros as the length of a calendar window; 0 means the current one. Without a calendar it returns 0.
func (l *limits) windowOf(micros int64) time.Duration {
	if !l.ofCalendar() || micros > 0 {
		return lasts(micros)
	}
	start, end := l.calendar.Bounds(time.Now())
	return end.Sub(start)
}
