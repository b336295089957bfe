package machine

import "slices"

// Grant is what a refund has to know of the grant that it undoes.
type Grant struct {
	Number  uint64 // a limiter's grants have rising numbers
	Permits int
	At      int64 // a window's: the instant of the grant
	Level   Level // a bucket's: right after the grant
	Lack    int   // a bucket's whose Level.Full is Never: the tokens missing then,
	Tick    int64 // and its latest tick; they are not looked at otherwise
}

// Refund undoes a grant of a rate limiter that was not used, at most once, and serves those
// for whom that is enough. It gives back what the limiter still lacks because of the grant:
// a window's permits while they count, a bucket's until the bucket would have been full
// again had nothing more been taken. last is the number of the latest grant.
func (m *Machine[Value]) Refund(now int64, g Grant, last uint64) {
	if m.history().add(g.Number) {
		m.giveBack(now, g, last)
	}
}

// Undo is Refund of a grant that nobody has seen, so that nobody refunds it again.
func (m *Machine[Value]) Undo(now int64, g Grant, last uint64) {
	if !m.history().has(g.Number) {
		m.giveBack(now, g, last)
	}
}

func (m *Machine[Value]) giveBack(now int64, g Grant, last uint64) {
	m.account.refund(m.t, now, g, last, m.refunds)
	m.replan()
	m.serve(now)
}

// Forget lets go of what refunds have to know, if no grant so far can be refunded any more.
// last is the number of the latest grant.
func (m *Machine[Value]) Forget(last uint64) {
	if m.refunds != nil && m.refunds.floor <= last && m.account.spent() {
		*m.refunds = refunds{floor: last + 1}
	}
}

func (m *Machine[Value]) history() *refunds {
	if m.refunds == nil {
		m.refunds = new(refunds)
	}
	return m.refunds
}

// refunds remembers which grants were refunded, so that none is twice, and what limits how
// much later refunds give back.
//
// It holds the numbers of the refunded in sets of 64, and no more than mostSets: then it
// forgets the older half, and takes every number up to there for refunded. So a refund is
// lost only if so many younger grants were refunded before it. It knows of mostUpdates
// updates, and takes the grants before those for refunded too.
type refunds struct {
	sets    map[uint64]uint64 // number/64: one bit each
	floor   uint64            // grants of lower numbers count as refunded
	updates []update          // the oldest first
	lows    lows              // a bucket's
}

// update is an Update.
type update struct {
	last          uint64 // the number of the latest grant before it
	at            int64
	before, after *Terms
}

const (
	mostSets    = 4096
	mostUpdates = 32
	mostLows    = 64
)

// has reports whether the grant was refunded.
func (r *refunds) has(number uint64) bool {
	return number < r.floor || r.sets[number/64]&(1<<(number%64)) != 0
}

// add reports whether the grant had not been refunded, and notes that it is now.
func (r *refunds) add(number uint64) bool {
	if r.has(number) {
		return false
	}
	if len(r.sets) >= mostSets {
		r.forget()
		if number < r.floor {
			return false
		}
	}
	if r.sets == nil {
		r.sets = make(map[uint64]uint64)
	}
	r.sets[number/64] |= 1 << (number % 64)
	return true
}

// forget drops the older half of the sets.
func (r *refunds) forget() {
	known := make([]uint64, 0, len(r.sets))
	for set := range r.sets {
		known = append(known, set)
	}
	slices.Sort(known)
	half := len(known) / 2
	r.floor = max(r.floor, known[half]*64)
	for _, set := range known[:half] {
		delete(r.sets, set)
	}
}

// note adds an update.
func (r *refunds) note(u update) {
	if len(r.updates) >= mostUpdates {
		half := len(r.updates) / 2
		r.floor = max(r.floor, r.updates[half-1].last+1)
		r.updates = append(r.updates[:0], r.updates[half:]...)
	}
	r.updates = append(r.updates, u)
}

// since returns the updates after a grant.
func (r *refunds) since(number uint64) []update {
	i := 0
	for i < len(r.updates) && r.updates[i].last < number {
		i++
	}
	return r.updates[i:]
}

// lows tells how few tokens a bucket has lacked, at least, since a grant. Ticks and refunds
// alone make it lack less. From one refund or update to the next, the mark lacks what the
// bucket would if nothing were taken, so the bucket lacks no less.
type lows struct {
	mark   Bucket
	number uint64 // of the latest grant when the mark was set; 0: it was not
	past   []low  // the oldest first; numbers and what is lacked rise
}

// low says that after the grant of that number, and before, the bucket has lacked so many
// tokens at some time, and no fewer since.
type low struct {
	number uint64
	lack   int
}

// since returns a number of tokens that the bucket has always lacked since the grant, as
// far as the marks tell; n at most.
func (l *lows) since(number uint64, n int) int {
	if l.number >= number {
		n = min(n, l.mark.lack)
	}
	for _, p := range l.past {
		if p.number >= number {
			return min(n, p.lack)
		}
	}
	return n
}

// advance says that time has passed. It comes before set and since.
func (l *lows) advance(t *Terms, b *Bucket, now int64) {
	if l.number == 0 {
		return
	}
	if t.Manual() {
		now = b.tick // nothing later was applied
	}
	l.mark.advance(t, now)
}

// set says that the bucket lacks what b does after the grant of that number.
func (l *lows) set(b *Bucket, number uint64) {
	if l.number > 0 {
		for n := len(l.past); n > 0 && l.past[n-1].lack >= l.mark.lack; n-- {
			l.past = l.past[:n-1]
		}
		if n := len(l.past); n >= mostLows {
			l.past[n-2].number = l.past[n-1].number // careful: it holds for more grants
			l.past = l.past[:n-1]
		}
		l.past = append(l.past, low{l.number, l.mark.lack})
	}
	l.mark, l.number = *b, number
}
