package core_test

import (
	"cmp"
	"context"
	"maps"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
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
func (h naiveHeld) giveAny(int)                 {}
func (h naiveHeld) reset(int64)                 {}

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
	least  int // what may be returned at most
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

// giveAny returns what would come back first.
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

// segment is the segment of an instant; startOf is the first instant of a segment.
func (w *naiveWindow) segment(at int64) int64 {
	return mulDiv(at-w.anchor, w.segments, w.length)
}

func (w *naiveWindow) startOf(segment int64) int64 {
	return w.anchor - mulDiv(-segment, w.length, w.segments)
}

func (w *naiveWindow) back(t taking) int64 { return w.startOf(w.segment(t.at) + w.segments) }

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
// that counts in the new grid. Permits that are due stay due.
func (w *naiveWindow) move(now, length, segments, anchor int64) {
	moved := &naiveWindow{length: length, segments: segments, anchor: anchor}
	same := w.length == length && w.segments == segments && (w.anchor-anchor)%length == 0
	oldest := moved.segment(now) - segments + 1
	for _, t := range w.takings {
		switch {
		case same:
		case w.back(t) <= now:
			t.at = moved.startOf(oldest - 1)
		default:
			t.at = max(w.startOf(w.segment(t.at)), 0, moved.startOf(oldest))
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

// naiveShares is what FairShare adds to the model: for each priority with waiters, the virtual time
// and the flows' tags, in fractions.
type naiveShares map[int]*naivePriority

type naivePriority struct {
	virtual *big.Rat
	tags    map[string]*big.Rat
}

func perWeight(w *naiveWaiter) *big.Rat {
	return big.NewRat(int64(w.n), int64(max(w.flow.Weight, 1)))
}

func sameFlow(a, b core.Flow) bool                       { return a.Key == b.Key && a.Priority == b.Priority }
func (m *naive) waits(is func(w *naiveWaiter) bool) bool { return slices.ContainsFunc(m.queue, is) }

func (m *naive) arrive(w *naiveWaiter) {
	if m.order == core.FairShare {
		m.tag(w)
	}
	m.queue = append(m.queue, w)
}

// tag gives w's flow its tag, if it has not waited.
func (m *naive) tag(w *naiveWaiter) {
	if m.shares == nil {
		m.shares = naiveShares{}
	}
	p := m.shares[w.flow.Priority]
	if p == nil {
		p = &naivePriority{new(big.Rat), map[string]*big.Rat{}}
		m.shares[w.flow.Priority] = p
	}
	if m.waits(func(o *naiveWaiter) bool { return sameFlow(o.flow, w.flow) }) {
		return
	}
	if tag := p.tags[w.flow.Key]; tag == nil || tag.Cmp(p.virtual) < 0 {
		p.tags[w.flow.Key] = p.virtual
	}
}

// leave takes w out of the queue. A priority without waiters is forgotten.
func (m *naive) leave(w *naiveWaiter) {
	m.queue = slices.DeleteFunc(m.queue, func(o *naiveWaiter) bool { return o == w })
	if !m.waits(func(o *naiveWaiter) bool { return o.flow.Priority == w.flow.Priority }) {
		delete(m.shares, w.flow.Priority)
	}
}

// fairest returns the waiter that is next.
func (m *naive) fairest() *naiveWaiter {
	return slices.MinFunc(m.queue, func(a, b *naiveWaiter) int { // the first of those that are equal
		if a.flow.Priority != b.flow.Priority {
			return cmp.Compare(b.flow.Priority, a.flow.Priority)
		}
		tags := m.shares[a.flow.Priority].tags
		return tags[a.flow.Key].Cmp(tags[b.flow.Key])
	})
}

// charge charges w's flow for it.
func (m *naive) charge(w *naiveWaiter) {
	if m.order == core.FairShare {
		p := m.shares[w.flow.Priority]
		p.virtual = p.tags[w.flow.Key]
		p.tags[w.flow.Key] = new(big.Rat).Add(p.virtual, perWeight(w))
	}
}

// reorder applies another order.
func (m *naive) reorder(order core.QueueOrder) {
	if order == m.order {
		return
	}
	m.shares = nil
	if m.order = order; order == core.FairShare {
		queue := m.queue
		m.queue = nil
		for _, w := range queue {
			m.arrive(w)
		}
	}
}

// evictions returns who has to leave, to make room for w; full if w is rejected.
func (m *naive) evictions(w *naiveWaiter) (evicted []*naiveWaiter, full bool) {
	left := slices.DeleteFunc(slices.Clone(m.queue), func(o *naiveWaiter) bool { return o.beyond })
	load := func(f core.Flow) *big.Rat {
		sum := new(big.Rat)
		for _, o := range left {
			if sameFlow(o.flow, f) {
				sum.Add(sum, perWeight(o))
			}
		}
		return sum
	}
	for room := m.queueLimit - m.bounded(); room < w.n; {
		victim := left[0]
		for _, o := range left { // at a tie the newer
			if p := cmp.Compare(o.flow.Priority, victim.flow.Priority); p < 0 || p == 0 && load(o.flow).Cmp(load(victim.flow)) >= 0 {
				victim = o
			}
		}
		own := new(big.Rat).Add(load(w.flow), perWeight(w))
		switch {
		case victim.flow.Priority > w.flow.Priority:
			return nil, true
		case victim.flow.Priority == w.flow.Priority && own.Cmp(load(victim.flow)) >= 0:
			return nil, true
		}
		left = slices.DeleteFunc(left, func(o *naiveWaiter) bool { return o == victim })
		evicted = append(evicted, victim)
		room += victim.n
	}
	return evicted, false
}

// ahead returns the permits that the waiters of a flow wait for.
func (m *naive) ahead(n int, flow *core.Flow) (permits int) {
	for _, o := range m.queue {
		if flow != nil && n > 0 && sameFlow(o.flow, *flow) {
			permits += o.n
		}
	}
	return permits
}

// rejectIn is reject of a request of a flow.
func (m *naive) rejectIn(w *naiveWaiter, reason string) *answer {
	a := m.reject(w.n, reason)
	if a.retry > 0 && m.order == core.FairShare {
		a.retry = max(m.due(w.n, &w.flow)-m.now, 1)
	}
	return a
}

// come takes n permits as they come back, and returns when the last has come.
func (m *naive) come(n int) int64 {
	for {
		k := min(n, m.available())
		m.ids++
		m.acct.take(m.now, m.ids, k)
		if n -= k; n == 0 {
			return m.now
		}
		m.now, _ = m.acct.next()
		m.acct.pass(m.now)
	}
}

// naive is the contract of a limiter, played event by event: slices, loops, no
// cleverness, and nothing shared with the package. Instants are nanoseconds since the
// limiter's creation. Only model tests use it.
type naive struct {
	now        int64
	acct       naiveAccount
	limit      int
	queueLimit int
	order      core.QueueOrder
	manual     bool
	timed      bool // a rate limiter
	closed     bool

	queue  []*naiveWaiter // in order of arrival
	probes []*naiveWaiter
	shares naiveShares // under FairShare

	whole             int64 // since when nothing is taken, if nothing is
	ids               int
	granted, rejected uint64
}

// naiveAccount knows what is taken and when it comes back.
type naiveAccount interface {
	taken() int
	take(now int64, id, n int)
	most(id, n int, at int64) int   // what may be returned, of a grant of n at an instant
	give(id, n, left int, at int64) // gives n back of a grant, which has left then
	giveAny(n int)                  // gives n back, of whichever grants
	next() (int64, bool)            // the instant at which permits come back next
	pass(now int64) bool            // what is due by now comes back
	reset(now int64)                // back to the initial state
	clone() naiveAccount
}

type naiveWaiter struct {
	n        int
	flow     core.Flow
	deadline int64 // naiveNever: none
	beyond   bool  // QueueLimit does not bound it, and it is not evicted
	answer   *answer
}

// answer is a decision, as it can be seen from outside.
type answer struct {
	at        int64
	err       error // nil: granted
	reason    string
	n         int
	id        int // of the taking
	limit     int
	remaining int   // -1: not compared
	reset     int64 // -1: none
	retry     int64 // 0: none
}

const naiveNever = math.MaxInt64

func (m *naive) available() int { return max(m.limit-m.acct.taken(), 0) }

func (m *naive) waiting() (permits int) {
	for _, w := range m.queue {
		permits += w.n
	}
	return permits
}

// bounded returns the permits of the waiters that QueueLimit bounds.
func (m *naive) bounded() (permits int) {
	for _, w := range m.queue {
		if !w.beyond {
			permits += w.n
		}
	}
	return permits
}

func (m *naive) clone() *naive {
	c := *m
	c.acct = m.acct.clone()
	c.queue, c.probes = nil, nil
	for _, w := range m.queue {
		c.queue = append(c.queue, &naiveWaiter{n: w.n, deadline: naiveNever})
	}
	for range m.probes {
		c.probes = append(c.probes, &naiveWaiter{deadline: naiveNever})
	}
	return &c
}

// change does something to the account and notes when it becomes whole.
func (m *naive) change(f func()) {
	before := m.acct.taken()
	f()
	if before > 0 && m.acct.taken() == 0 {
		m.whole = m.now
	}
}

// decide is the answer to a request of n permits at this instant.
func (m *naive) decide(n int, err error, reason string) *answer {
	a := &answer{at: m.now, err: err, reason: reason, n: n, limit: m.limit, remaining: -1, reset: -1}
	if err == nil || reason != "" {
		a.remaining = m.available()
		a.reset = m.resetAfter()
	}
	return a
}

func (m *naive) resetAfter() int64 {
	if !m.timed || m.manual {
		return -1
	}
	c := m.acct.clone()
	t := m.now
	for c.taken() > 0 {
		t, _ = c.next()
		c.pass(t)
	}
	return t - m.now
}

func (m *naive) grant(n int) *answer {
	m.ids++
	id := m.ids
	if n > 0 {
		m.acct.take(m.now, id, n)
	}
	m.granted++
	a := m.decide(n, nil, "")
	a.id = id
	return a
}

func (m *naive) reject(n int, reason string) *answer {
	m.rejected++
	a := m.decide(n, core.ErrRejected, reason)
	if m.timed && !m.manual {
		a.retry = max(m.due(n, nil)-m.now, 1)
	}
	return a
}

// due plays the future until a request of n permits, made now, is served. Under FairShare it is when
// the permits have come that it lacks, and those that the waiters of its flow lack; flow may be nil.
func (m *naive) due(n int, flow *core.Flow) int64 {
	c := m.clone()
	if m.order == core.FairShare {
		return c.come(max(n, 1) + m.ahead(n, flow))
	}
	w := &naiveWaiter{n: n, deadline: naiveNever}
	switch {
	case n == 0:
		c.probes = append(c.probes, w)
	case m.order == core.NewestFirst:
		c.queue = []*naiveWaiter{w}
	default:
		c.queue = append(c.queue, w)
	}
	c.serve()
	for w.answer == nil {
		t, _ := c.acct.next()
		c.now = t
		c.acct.pass(t)
		c.serve()
	}
	return c.now
}

// refuse is the order of checks, the context's aside; nil: none applies.
func (m *naive) refuse(n int) *answer {
	switch {
	case n < 0:
		return m.decide(n, core.ErrNegativePermits, "")
	case m.closed:
		return m.decide(n, core.ErrClosed, "")
	case n > m.limit:
		return m.decide(n, core.ErrPermitsExceedLimit, "")
	}
	return nil
}

// immediate grants what can be had without waiting; nil: nothing.
func (m *naive) immediate(n int) *answer {
	if n == 0 {
		if m.available() >= 1 {
			return m.grant(0)
		}
		return nil
	}
	if n > m.available() || m.order != core.NewestFirst && len(m.queue) > 0 {
		return nil
	}
	return m.grant(n)
}

func (m *naive) tryAcquire(n int) *answer {
	if a := m.refuse(n); a != nil {
		return a
	}
	if a := m.immediate(n); a != nil {
		return a
	}
	return m.reject(n, "permits exhausted")
}

func (m *naive) acquire(n int, flow core.Flow, deadline int64, beyond bool) *naiveWaiter {
	w := &naiveWaiter{n: n, flow: flow, deadline: deadline, beyond: beyond}
	if w.answer = m.refuse(n); w.answer != nil {
		return w
	}
	if w.answer = m.immediate(n); w.answer != nil {
		return w
	}
	var evicted []*naiveWaiter
	full := m.bounded()+n > m.queueLimit
	switch {
	case beyond:
		full = false
	case m.order == core.NewestFirst:
		full = n > m.queueLimit
	case m.order == core.FairShare && n > 0 && n <= m.queueLimit:
		evicted, full = m.evictions(w)
	}
	if n > 0 && full {
		w.answer = m.rejectIn(w, "queue limit reached")
		return w
	}
	if m.timed && !m.manual && deadline != naiveNever && m.due(n, &flow) > deadline {
		w.answer = m.rejectIn(w, "deadline too soon")
		return w
	}
	for _, old := range evicted {
		m.leave(old)
	}
	for _, old := range evicted {
		old.answer = m.rejectIn(old, "evicted by a newer request")
	}
	if n == 0 {
		m.probes = append(m.probes, w)
		return w
	}
	if m.order != core.FairShare {
		w.flow = core.Flow{}
	}
	for !beyond && m.bounded()+n > m.queueLimit {
		i := slices.IndexFunc(m.queue, func(o *naiveWaiter) bool { return !o.beyond })
		old := m.queue[i]
		m.queue = slices.Delete(m.queue, i, i+1)
		old.answer = m.reject(old.n, "evicted by a newer request")
	}
	m.arrive(w)
	if m.order == core.FairShare {
		m.serve() // it may be next
	}
	return w
}

// serve grants to those that fit, in order, and then to the probes.
func (m *naive) serve() {
	for len(m.queue) > 0 {
		w := m.queue[0]
		switch m.order {
		case core.NewestFirst:
			w = m.queue[len(m.queue)-1]
		case core.FairShare:
			w = m.fairest()
		}
		if w.n > m.available() {
			break
		}
		m.charge(w)
		m.leave(w)
		w.answer = m.grant(w.n)
	}
	if m.available() >= 1 {
		for _, w := range m.probes {
			w.answer = m.grant(0)
		}
		m.probes = nil
	}
}

func (m *naive) drop(w *naiveWaiter, err error) {
	m.leave(w)
	m.probes = slices.DeleteFunc(m.probes, func(o *naiveWaiter) bool { return o == w })
	w.answer = m.decide(w.n, err, "")
	w.answer.limit = 0
	m.serve()
}

func (m *naive) cancel(w *naiveWaiter) {
	if w.answer == nil {
		m.drop(w, context.Canceled)
	}
}

// give gives n permits back of a grant, which has left then.
func (m *naive) give(id, n, left int, at int64) {
	m.change(func() { m.acct.give(id, n, left, at) })
	m.serve()
}

// giveAny gives at most n permits back.
func (m *naive) giveAny(n int) {
	m.change(func() { m.acct.giveAny(min(n, m.acct.taken())) })
	m.serve()
}

func (m *naive) close() {
	m.closed = true
	for _, w := range slices.Concat(m.queue, m.probes) {
		w.answer = m.decide(w.n, core.ErrClosed, "")
	}
	m.queue, m.probes, m.shares = nil, nil, nil
}

func (m *naive) reset() {
	m.acct.reset(m.now)
	m.whole = m.now
	m.serve()
}

func (m *naive) tryReplenish() bool {
	if !m.manual || m.closed {
		return false
	}
	back := false
	m.change(func() { back = m.acct.pass(m.now) })
	m.serve()
	return back
}

// update applies new limits; the account has its own already.
func (m *naive) update(limit, queueLimit int, order core.QueueOrder, manual bool) {
	if m.manual && !manual {
		m.change(func() { m.acct.pass(m.now) })
	}
	m.reorder(order)
	m.limit, m.queueLimit, m.order, m.manual = limit, queueLimit, order, manual
	for _, w := range slices.Clone(m.queue) {
		if w.n > limit {
			m.leave(w)
			w.answer = m.decide(w.n, core.ErrPermitsExceedLimit, "")
		}
	}
	m.serve()
}

// advance lets time pass until t, from event to event.
func (m *naive) advance(t int64) {
	for {
		at, what := t, func() {}
		if m.timed && !m.manual {
			if next, ok := m.acct.next(); ok && next <= at {
				at = next
				what = func() {
					m.change(func() { m.acct.pass(next) })
					m.serve()
				}
			}
		}
		for _, w := range slices.Concat(m.queue, m.probes) {
			if w.deadline < at || w.deadline == at && at == t && w.deadline != naiveNever {
				at = w.deadline
				what = func() { m.drop(w, context.DeadlineExceeded) }
			}
		}
		m.now = at
		what()
		if at == t && !m.pending() {
			return
		}
	}
}

// pending reports whether something is still to happen at this instant.
func (m *naive) pending() bool {
	if m.timed && !m.manual {
		if next, ok := m.acct.next(); ok && next <= m.now {
			return true
		}
	}
	for _, w := range slices.Concat(m.queue, m.probes) {
		if w.deadline <= m.now {
			return true
		}
	}
	return false
}

func (m *naive) statistics() core.Statistics {
	return core.Statistics{
		Limit: m.limit, Available: m.available(), Queued: m.waiting(), Granted: m.granted, Rejected: m.rejected,
	}
}

func (m *naive) idleFor() (time.Duration, bool) {
	if m.acct.taken() > 0 {
		return 0, false
	}
	return time.Duration(m.now - m.whole), true
}
