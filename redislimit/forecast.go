package redislimit

// forecast says when permits come back if nobody takes more, as the store reported it. Times are
// microseconds since then. It forecasts nothing for a concurrency limiter.
type forecast struct {
	limits  *limits
	at      int64      // the server's instant of the report
	known   bool       // it does
	taken   int64      // permits; a bucket's: as of its latest tick
	age     int64      // a bucket's: of that tick
	returns []comeback // a window's, the earliest first; there may be more
}

// comeback is a number of permits that come back at an instant.
type comeback struct{ due, permits int64 }

// missing returns how many permits are not available.
func (f *forecast) missing(now int64) int64 {
	missing := f.taken
	switch {
	case f.limits.kind == kindBucket && missing > 0:
		ticks := min((now+f.age)/f.limits.span, f.limits.ticks(missing))
		missing -= ticks * f.limits.step
	case f.limits.window():
		for _, c := range f.returns {
			if c.due > now {
				break
			}
			missing -= c.permits
		}
	}
	return max(missing, 0)
}

// available returns how many permits can be taken.
func (f *forecast) available(now int64) int {
	return int(max(int64(f.limits.limit)-f.missing(now), 0))
}

// fullIn returns when all permits of a bucket are back.
func (f *forecast) fullIn() int64 {
	if f.taken == 0 {
		return 0
	}
	return f.tick(f.limits.ticks(f.taken))
}

// tick returns when a bucket's n-th tick from the latest on is.
func (f *forecast) tick(n int64) int64 { return max(f.limits.spans(n)-f.age, 0) }

// ready returns when n permits can be taken, now or later; never, if that is not known. If n is
// more than the limit, some of them are for waiters that take permits as soon as they come.
func (f *forecast) ready(now int64, n int) int64 {
	limit, missing := int64(f.limits.limit), f.missing(now)
	free, debt := max(limit-missing, 0), max(missing-limit, 0)
	need := int64(n) - free
	switch {
	case need <= 0:
		return now
	case f.limits.kind == kindBucket && need > never-limit-f.taken:
		return never
	case f.limits.kind == kindBucket:
		return f.tick(f.limits.ticks(int64(n) - limit + f.taken))
	}
	// What waiters take as it comes back comes back again one window later.
	windows := (need - 1) / limit
	need += debt - windows*limit
	for _, c := range f.returns {
		if c.due <= now {
			continue
		}
		if need -= c.permits; need <= 0 && f.limits.ofCalendar() {
			return c.due + min(f.limits.next(f.at+c.due, windows), never-c.due)
		} else if need <= 0 {
			return min(c.due, never-f.limits.spans(windows)) + f.limits.spans(windows)
		}
	}
	return never
}
