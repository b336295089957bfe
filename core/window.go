package core

import (
	"math/bits"
	"time"
)

// window is the account of the fixed and the sliding window: what was taken in each
// segment that still counts. A fixed window is a sliding one of one segment.
//
// Segment i begins at from + i·span/step, rounded up to the nanosecond; step is the number
// of segments in the window, span its length, and from is above -span and at most 0. What
// is taken in segment i comes back when segment i+step begins. Segments in which nothing was
// taken are not stored, so there may be as many as the window has nanoseconds.
type window struct {
	t       *terms
	taken   int       // the sum of what is in counts; above the limit after that shrank
	counts  *segments // nil: nothing was ever taken
	current int64     // the segment of the last call
	gone    int64     // segments before this one have come back
	full    int64     // if nothing is taken: since when
}

// segments is a queue of what was taken, segment by segment.
type segments struct {
	ring []segment // a power of two long
	head int
	len  int
}

type segment struct {
	index int64
	taken int
}

// at returns the i-th, from the oldest.
func (s *segments) at(i int) *segment { return &s.ring[(s.head+i)&(len(s.ring)-1)] }

func (s *segments) push(v segment) {
	if s.len == len(s.ring) {
		grown := make([]segment, max(1, 2*len(s.ring)))
		for i := range s.len {
			grown[i] = *s.at(i)
		}
		s.ring, s.head = grown, 0
	}
	s.len++
	*s.at(s.len - 1) = v
}

func (s *segments) pop() segment {
	v := *s.at(0)
	s.head = (s.head + 1) & (len(s.ring) - 1)
	s.len--
	return v
}

// anchored returns the origin of a grid that has a point at anchor, for instants that
// count from base. A zero anchor is base.
func anchored(anchor, base time.Time, length int64) int64 {
	if anchor.IsZero() {
		return 0
	}
	d := unixModulo(anchor, length) - unixModulo(base, length)
	if d > 0 {
		d -= length
	}
	return d
}

// unixModulo returns the nanoseconds from 1970 to t, modulo length, whatever the year.
func unixModulo(t time.Time, length int64) int64 {
	m := uint64(length)
	sec, negative := uint64(t.Unix()), t.Unix() < 0
	if negative {
		sec = -sec
	}
	hi, lo := bits.Mul64(sec, uint64(time.Second))
	r := bits.Rem64(hi, lo, m)
	if negative && r != 0 {
		r = m - r
	}
	// Both are below 2^63, so the sum does not overflow.
	return int64((r + uint64(t.Nanosecond())%m) % m)
}

// segment returns the segment of an instant.
func (t *terms) segment(at int64) int64 {
	// floor(x·step/span) is below 2^64, as step is at most span.
	hi, lo := bits.Mul64(uint64(at-t.from), uint64(t.step))
	i, _ := bits.Div64(hi, lo, uint64(t.span))
	return int64(i)
}

// begin returns the instant at which segment i begins, or never.
func (t *terms) begin(i int64) int64 {
	hi, lo := bits.Mul64(uint64(i), uint64(t.span))
	lo, carry := bits.Add64(lo, uint64(t.step)-1, 0)
	if hi += carry; hi >= uint64(t.step) {
		return never
	}
	x, _ := bits.Div64(hi, lo, uint64(t.step))
	if x += uint64(t.from); x > never { // from is not above 0, and the sum not below
		return never
	}
	return int64(x)
}

// back returns the instant at which what is taken in segment i comes back.
func (t *terms) back(i int64) int64 { return t.begin(i + int64(t.step)) }

func (w *window) advance(now int64) bool {
	w.current = max(w.current, w.t.segment(now))
	return w.expire(now)
}

// expire lets go of the segments that have left the window.
func (w *window) expire(now int64) bool {
	w.gone = max(w.gone, w.current-int64(w.t.step)+1)
	returned := false
	for w.counts != nil && w.counts.len > 0 && w.counts.at(0).index < w.gone {
		s := w.counts.pop()
		if s.taken == 0 {
			continue // refunded
		}
		w.taken -= s.taken
		if returned = true; w.taken == 0 {
			w.full = w.t.back(s.index)
			if w.t.manual {
				w.full = now
			}
		}
	}
	return returned
}

func (w *window) available() int { return max(w.t.limit-w.taken, 0) }

func (w *window) take(now int64, n int, _ bool) {
	w.current = max(w.current, w.t.segment(now))
	w.add(n)
}

// add counts n permits taken in the current segment.
func (w *window) add(n int) {
	if n == 0 {
		return
	}
	if w.counts == nil {
		w.counts = new(segments)
	}
	w.taken += n
	if c := w.counts; c.len > 0 && c.at(c.len-1).index == w.current {
		c.at(c.len - 1).taken += n
	} else {
		c.push(segment{w.current, n})
	}
}

// give finds the segment in which the permits were taken. If that has left the window they
// are back already. After an Update that moved the grid they may be in a later one.
func (w *window) give(now, at int64, n int) {
	index := w.t.segment(at)
	if w.taken == 0 || index < w.gone {
		return
	}
	for i := range w.counts.len {
		s := w.counts.at(i)
		if s.index < index || s.taken == 0 {
			continue
		}
		n = min(n, s.taken)
		s.taken -= n
		if w.taken -= n; w.taken == 0 {
			w.full = now
		}
		return
	}
}

func (w *window) ready(now int64, n int) int64 {
	need := n - (w.t.limit - w.taken)
	if need <= 0 {
		return now
	}
	for i := range w.counts.len {
		s := w.counts.at(i)
		if need -= s.taken; need <= 0 {
			return w.t.back(s.index)
		}
	}
	return never
}

func (w *window) whole(now int64) int64 {
	if w.taken == 0 {
		return now
	}
	for i := w.counts.len - 1; i > 0; i-- {
		if s := w.counts.at(i); s.taken > 0 {
			return w.t.back(s.index)
		}
	}
	return w.t.back(w.counts.at(0).index)
}

func (w *window) since(int64) (int64, bool) { return w.full, w.taken == 0 }

func (w *window) kept(due, now int64) bool { return w.t.segment(due) == w.t.segment(now) }

func (w *window) origin(int64, *cell) (int64, bool) { return w.t.from, true }

// open lends what is available until the segment ends, for all of it counts in this one.
func (w *window) open(now int64, _ *cell) (credit uint64, until int64, ok bool) {
	if w.t.limit <= w.taken || uint64(w.t.limit-w.taken) > maxCredit {
		return 0, 0, false
	}
	w.current = max(w.current, w.t.segment(now))
	return uint64(w.t.limit - w.taken), w.t.begin(w.current + 1), true
}

func (w *window) settle(_ int64, _ *cell, credit uint64) { w.add(w.available() - int(credit)) }

func (w *window) clone() account {
	c := *w
	if w.counts != nil {
		s := *w.counts
		s.ring = append([]segment(nil), s.ring...)
		c.counts = &s
	}
	return &c
}

// bind moves the account to the grid of t, if that is another. All that is taken stays
// taken: each segment's permits go to the segment of the new grid that has its beginning,
// at the earliest the oldest that counts now.
func (w *window) bind(now int64, t *terms) {
	old := *w
	w.t = t
	if old.t == nil || old.t.span == t.span && old.t.step == t.step && old.t.from == t.from {
		return
	}
	*w = window{t: t, current: t.segment(now), full: old.full}
	if old.counts == nil {
		return
	}
	current := w.current
	for old.counts.len > 0 {
		s := old.counts.pop()
		begun := t.segment(max(old.t.begin(s.index), 0))
		w.current = min(max(begun, current-int64(t.step)+1), current)
		w.add(s.taken)
	}
	w.current = current
}
