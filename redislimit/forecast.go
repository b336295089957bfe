package redislimit

import (
	"math"

	"github.com/sluice-go/sluice/internal/machine"
)

// forecast says when permits are returned if no more are taken, as the store reported it. Times are microseconds since
// the report. Nothing is forecast for a concurrency limiter, whose permits are returned when leases are released.
type forecast struct {
	limits  *limits
	at      int64 // the server's instant of the report
	known   bool
	taken   int64      // permits; a bucket's as of its latest tick
	age     int64      // age of a bucket's latest tick
	own     ownAccount // terms of a bucket
	returns []comeback // returns of a window's permits, the earliest first; there may be more
}

// comeback is a number of permits that are returned at a given time.
type comeback struct{ at, permits int64 }

// ownAccount is a bucket as it is for a process that has tickets: their tokens are taken when they are due.
type ownAccount struct {
	taken int64
	age   int64 // age of its latest tick
}

// serve takes tokens at a given time.
func (a *ownAccount) serve(l *limits, at, n int64) {
	ticks := max((at+a.age)/l.span, 0)
	if ticks < a.taken/l.step+1 {
		a.taken = max(a.taken-ticks*l.step, 0)
	} else {
		a.taken = 0
	}
	a.taken, a.age = min(a.taken+n, maxNumber), a.age-ticks*l.span
}

// bucket returns the bucket as the store reported it.
func (f *forecast) bucket() machine.KeptBucket {
	return machine.KeptBucket{Missing: int(min(f.taken, math.MaxInt)), Tick: -f.age}
}

// missing returns how many permits of a window or a concurrency limiter are not available.
func (f *forecast) missing(now int64) int64 {
	missing := f.taken
	for _, c := range f.returns {
		if c.at > now {
			break
		}
		missing -= c.permits
	}
	return max(missing, 0)
}

// available returns how many permits can be taken.
func (f *forecast) available(now int64) int {
	if f.limits.kind == kindBucket {
		return f.bucket().Available(&f.limits.bucket, now)
	}
	return int(max(int64(f.limits.limit)-f.missing(now), 0))
}

// fullAt returns when all permits are back: of a window, those that are reported.
func (f *forecast) fullAt() int64 {
	switch n := len(f.returns); {
	case f.limits.kind == kindBucket:
		return f.bucket().FullAt(&f.limits.bucket, 0)
	case n == 0:
		return 0
	default:
		return f.returns[n-1].at
	}
}

// availableIn returns when n permits can be taken, now or later; never if that is not known. If n is more than the limit,
// some of them are for waiters, which take permits as soon as they become available.
func (f *forecast) availableIn(now int64, n int) int64 {
	if f.limits.kind == kindBucket {
		return f.bucket().ReadyAt(&f.limits.bucket, now, n)
	}
	limit, missing := int64(f.limits.limit), f.missing(now)
	free, debt := max(limit-missing, 0), max(missing-limit, 0)
	need := int64(n) - free
	if need <= 0 {
		return now
	}
	// What waiters take as it is returned is returned again one window later.
	windows := (need - 1) / limit
	need += debt - windows*limit
	for _, c := range f.returns {
		if c.at <= now {
			continue
		}
		if need -= c.permits; need <= 0 {
			return c.at + min(f.limits.windowsAfter(f.at+c.at, windows), never-c.at)
		}
	}
	return never
}
