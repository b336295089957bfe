package redislimit

import (
	"slices"
	"time"
)

// refusals are those that are remembered: until then nobody gets so many permits, or more.
// They are in order of permits, and none says less than another.
type refusals []refusal

type refusal struct {
	n     int
	until time.Time
}

const mostRefusals = 8

// refuse reports whether n permits, or a probe, are known not to be there.
func (r *refusals) refuse(n int, now time.Time) bool {
	until, _ := r.until(max(n, 1), now)
	return now.Before(until)
}

// until returns the instant before which n permits are not there; false: none is known.
func (r *refusals) until(n int, now time.Time) (until time.Time, ok bool) {
	for _, f := range *r {
		if f.n <= n && now.Before(f.until) && f.until.After(until) {
			until, ok = f.until, true
		}
	}
	return until, ok
}

// add remembers that n permits are not there before that time.
func (r *refusals) add(n int, until time.Time) {
	for _, f := range *r {
		if f.n <= n && !f.until.Before(until) {
			return
		}
	}
	rest := slices.DeleteFunc(*r, func(f refusal) bool { return f.n >= n && !f.until.After(until) })
	if len(rest) == mostRefusals {
		rest = rest[1:]
	}
	at := 0
	for at < len(rest) && rest[at].n < n {
		at++
	}
	*r = slices.Insert(rest, at, refusal{n, until})
}
