package core_test

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
)

// naiveHeld is the account of a concurrency limiter: who holds what.
type naiveHeld map[int]int

func (h naiveHeld) taken() (sum int) {
	for _, n := range h {
		sum += n
	}
	return sum
}

func (h naiveHeld) take(_ int64, id, n int)     { h[id] += n }
func (h naiveHeld) most(id, _ int, _ int64) int { return h[id] }
func (h naiveHeld) give(id, n, _ int, _ int64)  { h[id] -= n }
func (h naiveHeld) next() (int64, bool)         { return 0, false }
func (h naiveHeld) pass(int64) bool             { return false }

func (h naiveHeld) giveAny(int) {}
func (h naiveHeld) reset(int64) {}
func (h naiveHeld) clone() naiveAccount {
	return maps.Clone(h)
}

// naiveBucket is the account of a token bucket: tick by tick.
type naiveBucket struct {
	limit, tokens int
	period        int64
	lack          int
	last          int64 // the latest tick, or the instant at which it left full
	due           int   // tokens that an update found due and not replenished
	ticks         int   // counts the instants at which tokens came
	takings       []*naiveTaking
}

// naiveTaking is what a refund has to know.
type naiveTaking struct {
	id     int
	alone  int // what the bucket would lack if nothing had been taken after it
	least  int // what may be given back at most
	marked bool
	mark   int // what the bucket would lack if nothing had been taken after the latest refund or update
}

func (b *naiveBucket) taken() int { return b.lack }

func (b *naiveBucket) take(now int64, id, n int) {
	if b.lack == 0 {
		b.last = now
	}
	b.lack += n
	b.takings = append(b.takings, &naiveTaking{id: id, alone: b.lack, least: n})
}

func (b *naiveBucket) most(id, n int, _ int64) (most int) {
	for _, t := range b.takings {
		if t.id == id {
			k := min(t.least, t.alone)
			if t.marked {
				k = min(k, t.mark)
			}
			most += k
		}
	}
	return min(most, n, b.lack)
}

func (b *naiveBucket) give(id, n, left int, _ int64) {
	b.lack -= n
	for _, t := range b.takings {
		if t.id == id {
			k := min(t.least, n)
			t.least, n = min(t.least-k, left), n-k
		}
	}
	b.mark()
	b.cleared()
}

func (b *naiveBucket) giveAny(n int) {
	b.lack -= n
	b.due = min(b.due, b.lack)
	b.mark()
	b.cleared()
}

// mark notes what the bucket lacks now.
func (b *naiveBucket) mark() {
	for _, t := range b.takings {
		if t.marked {
			t.least = min(t.least, t.mark)
		}
		t.marked, t.mark = true, max(b.lack-b.due, 0) // an update may have left less room than was due
	}
}

// cleared forgets all takings if the bucket is full.
func (b *naiveBucket) cleared() {
	if b.lack == 0 {
		b.takings, b.due = nil, 0
	}
}

func (b *naiveBucket) next() (int64, bool) { return b.last + b.period, b.lack > 0 }

func (b *naiveBucket) pass(now int64) (back bool) {
	if b.due > 0 {
		b.lack = max(b.lack-b.due, 0)
		b.due, back = 0, true
	}
	for b.lack > 0 && b.last+b.period <= now {
		b.last += b.period
		b.lack = max(b.lack-b.tokens, 0)
		for _, t := range b.takings {
			t.alone, t.mark = max(t.alone-b.tokens, 0), max(t.mark-b.tokens, 0)
		}
		back = true
	}
	b.cleared()
	if back {
		b.ticks++
	}
	return back
}

// update keeps the tokens that are there, and the next come no later than before.
func (b *naiveBucket) update(now int64, limit, tokens int, period int64, manual bool) {
	if !manual {
		b.pass(now)
	}
	for b.lack > 0 && b.last+b.period <= now {
		b.last += b.period
		b.due = min(b.due+b.tokens, b.lack)
		for _, t := range b.takings {
			t.alone = max(t.alone-b.tokens, 0)
		}
	}
	keep := func(lack int) int { return limit - min(b.limit-lack, limit) }
	for _, t := range b.takings {
		if t.least = min(t.least, t.alone); t.alone > 0 {
			t.alone = keep(t.alone)
		}
	}
	next := min(b.last+b.period, now+period)
	if b.lack == 0 {
		next = now + period
	}
	b.lack = keep(b.lack)
	b.due = min(b.due, b.lack) // there is no room for more
	b.limit, b.tokens, b.period, b.last = limit, tokens, period, next-period
	b.mark()
	b.cleared()
}

func (b *naiveBucket) reset(now int64) {
	b.lack, b.last, b.takings, b.due = 0, now, nil, 0
}

func (b *naiveBucket) clone() naiveAccount {
	c := *b
	c.takings = nil // nothing is refunded in the future that is played
	return &c
}

// naiveWindow is the account of a window: each taking by itself.
type naiveWindow struct {
	length, segments int64
	anchor           int64
	takings          []taking
}

type taking struct {
	at    int64
	id, n int
}

func (w *naiveWindow) taken() (sum int) {
	for _, t := range w.takings {
		sum += t.n
	}
	return sum
}

func (w *naiveWindow) take(now int64, id, n int) {
	w.takings = append(w.takings, taking{now, id, n})
}

// most is what counts in the segment of the grant.
func (w *naiveWindow) most(_, n int, at int64) int {
	sum := 0
	for _, t := range w.takings {
		if w.segment(t.at) == w.segment(at) {
			sum += t.n
		}
	}
	return min(n, sum)
}

func (w *naiveWindow) give(_, n, _ int, at int64) {
	for i := range w.takings {
		if t := &w.takings[i]; w.segment(t.at) == w.segment(at) {
			k := min(t.n, n)
			t.n, n = t.n-k, n-k
		}
	}
	w.takings = slices.DeleteFunc(w.takings, func(t taking) bool { return t.n == 0 })
}

// giveAny gives back what would come back first.
func (w *naiveWindow) giveAny(n int) {
	slices.SortStableFunc(w.takings, func(a, b taking) int { return cmp.Compare(w.segment(a.at), w.segment(b.at)) })
	for i := range w.takings {
		k := min(w.takings[i].n, n)
		w.takings[i].n, n = w.takings[i].n-k, n-k
	}
	w.takings = slices.DeleteFunc(w.takings, func(t taking) bool { return t.n == 0 })
}

// mulDiv is a·b/c, rounded down; c is above 0.
func mulDiv(a, b, c int64) int64 {
	x := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	return x.Div(x, big.NewInt(c)).Int64() // Euclid's, so down
}

// segment is the segment of an instant; begin is the first instant of a segment.
func (w *naiveWindow) segment(at int64) int64 {
	return mulDiv(at-w.anchor, w.segments, w.length)
}

func (w *naiveWindow) begin(segment int64) int64 {
	return w.anchor - mulDiv(-segment, w.length, w.segments)
}

func (w *naiveWindow) back(t taking) int64 { return w.begin(w.segment(t.at) + w.segments) }

func (w *naiveWindow) next() (at int64, ok bool) {
	for _, t := range w.takings {
		if b := w.back(t); !ok || b < at {
			at, ok = b, true
		}
	}
	return at, ok
}

func (w *naiveWindow) pass(now int64) bool {
	before := len(w.takings)
	w.takings = slices.DeleteFunc(w.takings, func(t taking) bool { return w.back(t) <= now })
	return len(w.takings) < before
}

// move puts each taking where the segment that it was in began, or the limiter, or the oldest segment
// that counts in the new grid. What is due stays due.
func (w *naiveWindow) move(now, length, segments, anchor int64) {
	moved := &naiveWindow{length: length, segments: segments, anchor: anchor}
	same := w.length == length && w.segments == segments && (w.anchor-anchor)%length == 0
	oldest := moved.segment(now) - segments + 1
	for _, t := range w.takings {
		switch {
		case same:
		case w.back(t) <= now:
			t.at = moved.begin(oldest - 1)
		default:
			t.at = max(w.begin(w.segment(t.at)), 0, moved.begin(oldest))
		}
		moved.takings = append(moved.takings, t)
	}
	*w = *moved
}

func (w *naiveWindow) reset(int64) { w.takings = nil }

func (w *naiveWindow) clone() naiveAccount {
	c := *w
	c.takings = slices.Clone(w.takings)
	return &c
}
