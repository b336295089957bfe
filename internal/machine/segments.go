package machine

import "sort"

// Segments is the account of the fixed and the sliding window: what was taken in each
// segment that still counts. A fixed window is a sliding one of one segment.
//
// Segment i begins at From + i·Span/Step, rounded up to the nanosecond. What is taken in
// segment i comes back when segment i+Step begins. Segments in which nothing was taken are
// not stored, so there may be as many as the window has nanoseconds.
type Segments struct {
	taken  int      // the sum of what is in counts; above the limit after that shrank
	counts *history // nil: nothing counts
	full   int64    // if nothing is taken: since when
}

// history is a queue of what was taken, segment by segment, the oldest first.
type history struct {
	ring []segment // a power of two long
	head int
	len  int
	void int // how many of them have had all refunded
}

type segment struct {
	index int64
	taken int
}

const (
	mostKept = 64 // segments for which an account that counts none keeps room
	mostVoid = 64 // segments that count nothing, before they are looked for
)

// at returns the i-th, from the oldest.
func (h *history) at(i int) *segment { return &h.ring[(h.head+i)&(len(h.ring)-1)] }

func (h *history) push(v segment) {
	if h.len == len(h.ring) {
		grown := make([]segment, max(1, 2*len(h.ring)))
		for i := range h.len {
			grown[i] = *h.at(i)
		}
		h.ring, h.head = grown, 0
	}
	h.len++
	*h.at(h.len - 1) = v
}

func (h *history) pop() segment {
	v := *h.at(0)
	h.head = (h.head + 1) & (len(h.ring) - 1)
	h.len--
	return v
}

// compact lets go of the segments that count no more, if they are most.
func (h *history) compact() {
	if h.void < mostVoid || h.void <= h.len/2 {
		return
	}
	kept := 0
	for i := range h.len {
		if s := *h.at(i); s.taken > 0 {
			*h.at(kept) = s
			kept++
		}
	}
	h.len, h.void = kept, 0
}

// advance lets go of the segments that have left the window.
func (w *Segments) advance(t *Terms, now int64) bool {
	if w.spent() {
		return false
	}
	oldest := t.Segment(now) - int64(t.Step) + 1
	returned := false
	for w.counts.len > 0 && w.counts.at(0).index < oldest {
		s := w.counts.pop()
		if s.taken == 0 {
			w.counts.void--
			continue
		}
		w.taken -= s.taken
		if returned = true; w.taken == 0 {
			w.full = t.Back(s.index)
			if t.Manual() {
				w.full = now
			}
		}
	}
	if w.counts.len == 0 && len(w.counts.ring) > mostKept {
		w.counts = nil
	}
	return returned
}

func (w *Segments) available(t *Terms) int { return max(t.Limit-w.taken, 0) }

func (w *Segments) take(t *Terms, now int64, n int, _ bool) { w.TakeIn(t.Segment(now), n) }

// TakeIn takes n permits in a segment, the latest or a later one.
func (w *Segments) TakeIn(index int64, n int) {
	if n == 0 {
		return
	}
	if w.counts == nil {
		w.counts = new(history)
	}
	w.taken += n
	if c := w.counts; c.len > 0 && c.at(c.len-1).index >= index {
		if c.at(c.len-1).taken == 0 {
			c.void--
		}
		c.at(c.len - 1).taken += n
	} else {
		c.push(segment{index, n})
	}
}

// bind moves the account to the grid of t, if that is another: all that is taken stays
// taken, in the segment that place names.
func (w *Segments) bind(old, t *Terms, now int64) {
	if old == nil {
		w.full = now
		return
	}
	if !t.Manual() {
		w.advance(old, now) // terms that were manual till now have left it undone
	}
	if old.sameGrid(t) || w.spent() {
		return
	}
	counts := w.counts
	w.counts, w.taken = nil, 0
	for counts.len > 0 {
		s := counts.pop()
		w.TakeIn(place(old, t, s.index, now), s.taken)
	}
}

// place returns the segment of a new grid to which the permits of a segment go at now: the
// one that has its beginning, at the earliest the oldest that counts then. What is due but
// waits for Replenish stays due.
func place(old, t *Terms, index, now int64) int64 {
	current := t.Segment(now)
	oldest := current - int64(t.Step) + 1
	if old.Back(index) <= now {
		return oldest - 1
	}
	return min(max(t.Segment(max(old.Begin(index), 0)), oldest), current)
}

// refund finds the segment in which the permits count. If that has left the window, they
// are back already. If they were due when the grid moved, they may be back, or wait for
// Replenish among others that do: they come with those.
func (w *Segments) refund(t *Terms, now int64, g Grant, _ uint64, r *refunds) {
	if w.spent() {
		return
	}
	since := r.since(g.Number)
	first := t
	if len(since) > 0 {
		first = since[0].before
	}
	index := first.Segment(g.At)
	for _, u := range since {
		if u.before.sameGrid(u.after) {
			continue
		}
		if u.before.Back(index) <= u.at {
			return
		}
		index = place(u.before, u.after, index, u.at)
	}
	h := w.counts
	i := sort.Search(h.len, func(i int) bool { return h.at(i).index >= index })
	if i == h.len || h.at(i).index != index || h.at(i).taken == 0 {
		return
	}
	s := h.at(i)
	n := min(g.Permits, s.taken)
	s.taken -= n
	if w.taken -= n; w.taken == 0 && n > 0 {
		w.full = now
	}
	if s.taken == 0 {
		h.void++
		h.compact()
	}
}

func (w *Segments) ready(t *Terms, now int64, n int) int64 {
	need := n - (t.Limit - w.taken)
	if need <= 0 {
		return now
	}
	for i := range w.counts.len {
		s := w.counts.at(i)
		if need -= s.taken; need <= 0 {
			return t.Back(s.index)
		}
	}
	return Never
}

func (w *Segments) whole(t *Terms, now int64) int64 {
	if w.taken == 0 {
		return now
	}
	for i := w.counts.len - 1; i > 0; i-- {
		if s := w.counts.at(i); s.taken > 0 {
			return t.Back(s.index)
		}
	}
	return t.Back(w.counts.at(0).index)
}

func (w *Segments) idle(*Terms) (int64, bool) { return w.full, w.taken == 0 }

func (w *Segments) kept(t *Terms, due, now int64) bool { return t.Segment(due) == t.Segment(now) }

// spent is true when no segment counts but such as have had all refunded, and have been let
// go of: then no grant is left to be refunded.
func (w *Segments) spent() bool { return w.counts == nil || w.counts.len == 0 }

func (w *Segments) clone() Account {
	c := *w
	if w.counts != nil {
		h := *w.counts
		h.ring = append([]segment(nil), h.ring...)
		c.counts = &h
	}
	return &c
}
