package machine

import (
	"math"
	"math/bits"
	"sort"
)

// Segments is the account of the fixed and the sliding window: the permits taken in each
// segment that still counts. A fixed window is a sliding one of one segment.
//
// Segment i starts at From + i·Span/Step, rounded up to the nanosecond. The permits taken in
// segment i come back when segment i+Step starts. Segments without taken permits are
// not stored, so there may be as many as the window has nanoseconds.
type Segments struct {
	taken  int   // the sum of counts, at most math.MaxInt
	counts *ring // nil means that nothing counts
	full   int64 // since when nothing is taken; valid if taken is 0
}

// ring is a queue of segments with the permits taken in each, the oldest first.
type ring struct {
	segments []segment // a power of two long
	head     int
	len      int

	// The segment of now, so that its bounds are computed once (bench: windows).
	index int64 // its number
	ends  int64 // when it ends, or unknown
	back  int64 // when permits that are taken in it come back
}

type segment struct {
	index int64
	taken int
}

const unknown = math.MinInt64 // an end

func newRing() *ring { return &ring{ends: unknown} }

const mostKept = 64 // the capacity that an empty account keeps, in segments

// at returns the i-th, from the oldest.
func (r *ring) at(i int) *segment { return &r.segments[(r.head+i)&(len(r.segments)-1)] }

func (r *ring) push(v segment) {
	if r.len == len(r.segments) {
		grown := make([]segment, max(1, 2*len(r.segments)))
		for i := range r.len {
			grown[i] = *r.at(i)
		}
		r.segments, r.head = grown, 0
	}
	r.len++
	*r.at(r.len - 1) = v
}

func (r *ring) pop() segment {
	v := *r.at(0)
	r.head = (r.head + 1) & (len(r.segments) - 1)
	r.len--
	return v
}

// trim drops the latest segments of which all was returned: what is taken and returned again and
// again leaves nothing behind, and fullAt goes by the latest segment.
func (r *ring) trim() {
	for r.len > 0 && r.at(r.len-1).taken == 0 {
		r.len--
	}
}

// find returns the segment of that index, nil if nothing was taken in it.
func (r *ring) find(index int64) *segment {
	i := sort.Search(r.len, func(i int) bool { return r.at(i).index >= index })
	if i < r.len && r.at(i).index == index {
		return r.at(i)
	}
	return nil
}

// enter finds the segment of now.
func (r *ring) enter(t *Terms, now int64) {
	if now < r.ends {
		return
	}
	if t.Calendar == nil {
		r.index = t.segment(now)
	} else { // the current window does not change before its end
		if r.ends == unknown {
			r.index, r.ends = 0, t.End()
		}
		for ; now >= r.ends; r.ends = t.startOf(r.index + 1) {
			r.index++
		}
	}
	r.ends, r.back = t.startOf(r.index+1), t.back(r.index)
}

// advance lets go of the segments that have left the window.
func (w *Segments) advance(t *Terms, now int64) bool {
	if w.counts == nil {
		return false
	}
	w.counts.enter(t, now)
	oldest := w.counts.index - int64(t.Step) + 1
	returned := false
	for w.counts.len > 0 && w.counts.at(0).index < oldest {
		s := w.counts.pop()
		if s.taken == 0 {
			continue // all of it was returned
		}
		w.taken -= s.taken
		if returned = true; w.taken == 0 {
			w.full = t.back(s.index)
			if t.Manual() {
				w.full = now
			}
		}
	}
	if w.counts.len == 0 && len(w.counts.segments) > mostKept {
		w.counts = nil
	}
	return returned
}

func (w *Segments) available(t *Terms) int { return max(t.Limit-w.taken, 0) }

func (w *Segments) take(t *Terms, now int64, n int) {
	if w.counts == nil {
		w.counts = newRing()
	}
	w.counts.enter(t, now)
	w.takeIn(w.counts.index, n)
}

// takeIn takes n permits in a segment, the latest or a later one.
func (w *Segments) takeIn(index int64, n int) {
	if n = sum(w.taken, n) - w.taken; n == 0 {
		return
	}
	if w.counts == nil {
		w.counts = newRing()
	}
	w.taken += n
	if c := w.counts; c.len > 0 && c.at(c.len-1).index >= index {
		c.at(c.len - 1).taken += n
	} else {
		c.push(segment{index, n})
	}
}

// bind moves the account to the grid of t, if that is another: everything that is taken stays
// taken, in the segment that place returns.
func (w *Segments) bind(old, t *Terms, now int64) {
	if old == nil {
		w.full = now
		return
	}
	if w.counts != nil && old.Calendar != nil && t.Calendar == nil {
		w.counts.ends = unknown // the window may have been shifted
	}
	if !t.Manual() {
		w.advance(old, now) // not done yet if the old terms were manual
	}
	if w.counts == nil {
		return
	}
	if old.SameGrid(t) {
		if t.Calendar == nil {
			w.counts.ends = unknown
		}
		return
	}
	counts := w.counts
	w.counts, w.taken = newRing(), 0
	w.counts.enter(t, now)
	for counts.len > 0 {
		s := counts.pop()
		w.takeIn(place(old, t, s.index, now), s.taken)
	}
}

// place returns the segment of a new grid to which the permits of a segment go at now: the
// one that has its start, at the earliest the oldest that counts then. Permits that are due but
// wait for Replenish stay due.
func place(old, t *Terms, index, now int64) int64 {
	current := t.segment(now)
	oldest := current - int64(t.Step) + 1
	if old.back(index) <= now {
		return oldest - 1
	}
	return min(max(t.segment(max(old.startOf(index), 0)), oldest), current)
}

// Try is that of an [Account].
func (w *Segments) Try(t *Terms, now int64, n int) (left int, fullAt, readyAt int64, ok bool) {
	if w.counts == nil || now >= w.counts.ends {
		w.advance(t, now)
	}
	if left = t.Limit - w.taken; n > left {
		return max(left, 0), w.fullAt(t, now), w.readyAt(t, now, n), false
	}
	if c := w.counts; c != nil && c.len > 0 && c.at(c.len-1).index == c.index {
		c.at(c.len - 1).taken += n // saves a call (bench: windows)
		w.taken += n
	} else {
		w.take(t, now, n)
	}
	return left - n, w.counts.back, 0, true
}

func (w *Segments) settle(t *Terms, now int64, g Grant, n int) (renewed bool) {
	if n < g.Permits {
		if g.Epoch == t.Epoch && w.counts != nil {
			w.refund(now, w.counts.segmentOf(t, g.At), g.Permits-n)
		}
		return false
	}
	w.take(t, now, n-g.Permits)
	return g.Permits == 0
}

// segmentOf returns the segment of a grant.
func (r *ring) segmentOf(t *Terms, at int64) int64 {
	switch {
	case t.Calendar == nil:
		return t.segment(at)
	case at < t.startOf(r.index):
		return -1 // some window before
	}
	return r.index
}

// refund returns at most n permits of a segment. Once that has left the window they are
// back already.
func (w *Segments) refund(now, index int64, n int) {
	s := w.counts.find(index)
	if s == nil {
		return
	}
	n = min(n, s.taken)
	s.taken -= n
	if w.taken -= n; w.taken == 0 && n > 0 {
		w.full = now
	}
	w.counts.trim()
}

// giveBack returns n permits, those that come back first.
func (w *Segments) giveBack(_ *Terms, now int64, n int) bool {
	if n = min(n, w.taken); n == 0 {
		return true
	}
	if w.taken -= n; w.taken == 0 {
		w.full = now
	}
	for i := 0; n > 0; i++ {
		s := w.counts.at(i)
		back := min(n, s.taken)
		s.taken -= back
		n -= back
	}
	w.counts.trim()
	return true
}

func (w *Segments) keeps(t, u *Terms) bool { return t.SameGrid(u) }

// record: a calendar's clock may have been set back to before the window.
func (w *Segments) record(t *Terms, now, _ int64) (at int64, missing int) {
	return max(now, t.From), t.Limit - w.available(t)
}

// mostPlayed: the windows of a calendar take ten times as long.
func (w *Segments) mostPlayed(t *Terms) int {
	if t.Calendar != nil {
		return 32
	}
	return mostPlayed
}

func (w *Segments) reset(_ *Terms, now int64) { *w = Segments{full: now} }

func (w *Segments) readyAt(t *Terms, now int64, n int) int64 { return w.servedAt(t, now, 0, n) }

// uniformTo is one permit: it is taken at the boundary at which it comes back. Of two, one may have to
// wait there for the other.
func (w *Segments) uniformTo(*Terms) int { return 1 }

// servedAt follows the taken permits through the queue: uniform waiters take each segment's
// permits at the instant at which they come back, so these come back again one window
// later, and so on. Permits that are free although requests wait, as they may be under FairShare,
// are taken now.
func (w *Segments) servedAt(t *Terms, now int64, ahead, n int) int64 {
	need, free := uint64(ahead)+uint64(n), uint64(w.available(t))
	if need <= free {
		return now
	}
	need -= free
	windows := uint64(0)
	if need > uint64(t.Limit) {
		windows = (need - 1) / uint64(t.Limit) // each brings the limit, as all is taken
		need -= windows * uint64(t.Limit)
	}
	over, back := bits.Mul64(windows+1, uint64(t.Step))
	debt := max(w.taken-t.Limit, 0) // what comes back first pays the debt
	for i := 0; over == 0 && i < w.counts.len; i++ {
		s := w.counts.at(i)
		paid := min(debt, s.taken)
		debt -= paid
		if comes := uint64(s.taken - paid); comes < need {
			need -= comes
			continue
		}
		if windows == 0 && s.index == w.counts.index {
			return w.counts.back
		}
		return t.startAfter(s.index, back)
	}
	if over != 0 {
		return Never
	}
	return t.startAfter(t.segment(max(now, t.From)), back) // a calendar's may be later
}

func (w *Segments) fullAt(t *Terms, now int64) int64 {
	if w.taken == 0 {
		return now
	}
	last := w.counts.at(w.counts.len - 1).index // see trim
	if last == w.counts.index {
		return w.counts.back
	}
	return t.back(last)
}

func (w *Segments) idle(*Terms) (int64, bool) { return w.full, w.taken == 0 }

func (w *Segments) clone() Account {
	c := *w
	if w.counts != nil {
		r := *w.counts
		r.segments = append([]segment(nil), r.segments...)
		c.counts = &r
	}
	return &c
}
