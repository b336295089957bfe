package machine

import "math/bits"

// Bucket is the account of a token bucket: what it lacks to be full, as of a tick of its
// clock.
type Bucket struct {
	lack int   // tokens missing as of tick, from 0 to the limit
	tick int64 // the latest tick applied: a point of the grid that began when it left full; since when it is full, if it is
	due  int   // manual: tokens of ticks before tick that wait for Replenish
}

// Level is a bucket's state in another form: the instant at which it is full again if
// nothing more is taken, and how many of the last tick's tokens it then has no room for.
// With m ticks to come until full, it lacks m·step-spare.
type Level struct {
	Full  int64
	Spare int
}

// tickAfter returns the instant of the k-th tick from b.tick on, or Never. The tick before may
// lie far before the limiter's creation: an Update to a long period puts it there.
func (b *Bucket) tickAfter(t *Terms, k int64) int64 {
	if k == 0 {
		return b.tick
	}
	return after(after(b.tick, t.Span), t.later(k-1))
}

// ticksBy returns how many ticks there are from b.tick on until an instant.
func (b *Bucket) ticksBy(t *Terms, now int64) int64 {
	if now <= b.tick {
		return 0
	}
	return int64(uint64(now-b.tick) / uint64(t.Span)) // the difference may be above MaxInt64
}

// Lack returns the tokens missing as of the latest tick applied.
func (b *Bucket) Lack() int { return b.lack }

// Tick returns the latest tick applied.
func (b *Bucket) Tick() int64 { return b.tick }

// Level returns the bucket's level.
func (b *Bucket) Level(t *Terms) Level {
	if b.lack == 0 {
		return Level{Full: b.tick}
	}
	k := t.Ticks(b.lack)
	return Level{b.tickAfter(t, k), int(k)*t.Step - b.lack}
}

// SetLevel puts the bucket into the state that the level is at now.
func (b *Bucket) SetLevel(t *Terms, now int64, l Level) {
	b.due = 0
	if l.Full <= now {
		b.lack, b.tick = 0, l.Full
		return
	}
	ticks := (uint64(l.Full-now) + uint64(t.Span) - 1) / uint64(t.Span)
	b.lack = int(ticks)*t.Step - l.Spare
	b.tick = l.Full - int64(ticks)*t.Span
}

func (b *Bucket) advance(t *Terms, now int64) bool {
	k := b.ticksBy(t, now)
	if b.lack == 0 || k == 0 && b.due == 0 {
		return false
	}
	hi, back := bits.Mul64(uint64(k), uint64(t.Step))
	back, carry := bits.Add64(back, uint64(b.due), 0)
	switch {
	case hi+carry == 0 && back < uint64(b.lack):
		b.lack -= int(back)
		b.tick += k * t.Span
	case t.Manual():
		b.lack, b.tick = 0, now
	default:
		b.lack, b.tick = 0, b.tickAfter(t, t.Ticks(b.lack))
	}
	b.due = 0
	return true
}

// bind keeps the tokens that are there: growing brings none, shrinking leaves no debt. The
// next come when they would have, or one new period from now if that is sooner.
func (b *Bucket) bind(old, t *Terms, now int64) {
	switch {
	case old == nil:
		b.tick = now
		return
	case t.Manual() && b.lack > 0:
		b.setAside(old, now)
	default:
		b.advance(old, now) // terms that were manual till now have left it undone
	}
	if b.lack == 0 {
		if b.lack = max(t.Limit-old.Limit, 0); b.lack > 0 {
			b.tick = now
		}
		return
	}
	b.lack = t.Limit - min(old.Limit-b.lack, t.Limit)
	if b.lack == 0 {
		b.tick, b.due = now, 0
		return
	}
	b.tick = min(after(b.tick, old.Span), after(now, t.Span)) - t.Span
}

// setAside keeps the tokens that are due by now for Replenish, and applies none.
func (b *Bucket) setAside(t *Terms, now int64) {
	k := b.ticksBy(t, now)
	b.tick += k * t.Span
	hi, due := bits.Mul64(uint64(k), uint64(t.Step))
	due, carry := bits.Add64(due, uint64(b.due), 0)
	if hi+carry != 0 || due > uint64(b.lack) {
		due = uint64(b.lack)
	}
	b.due = int(due)
}

func (b *Bucket) available(t *Terms) int { return t.Limit - b.lack }

// take begins a new grid if the bucket was full: now, but for a waiter when its tokens were
// there. However late it was woken, the ticks after it keep their time.
func (b *Bucket) take(t *Terms, now int64, n int, served bool) {
	if b.lack == 0 {
		full := b.tick
		if b.tick = now; served && full < now {
			b.tick -= (now - full) % t.Span
		}
	}
	b.lack += n
}

func (b *Bucket) give(now int64, n int) {
	if b.lack == 0 {
		return
	}
	if b.lack = max(b.lack-n, 0); b.lack == 0 {
		b.tick, b.due = now, 0
	}
}

// refund gives back what the bucket still lacks because of the grant. That is at most what
// it has always lacked since: had it been full for a moment, the grant would have left no
// trace, and had it lacked three tokens, all but three of the grant's would be made up for,
// by tokens that would have found the bucket full. It was never fuller than it would have
// been if nothing had been taken after the grant and nothing refunded; refunds are in lows.
func (b *Bucket) refund(t *Terms, now int64, g Grant, last uint64, r *refunds) {
	if b.lack == 0 {
		return
	}
	r.lows.advance(t, b, now)
	n := min(r.lows.since(g.Number, g.Permits), b.alone(t, now, g, r.since(g.Number)), b.lack)
	if n == 0 {
		return
	}
	b.give(now, n)
	r.lows.set(b, last)
}

// alone returns how much the bucket would lack, at its fullest since the grant, if nothing
// had been taken after it.
func (b *Bucket) alone(t *Terms, now int64, g Grant, since []update) int {
	if t.Manual() {
		if b.due > 0 && len(since) == 0 {
			return g.Permits // what was set aside before the grant has not come yet, nor has anything else
		}
		now = b.tick // nothing later was applied
	}
	would, n := Bucket{}, g.Permits
	if len(since) > 0 {
		would.setGranted(since[0].before, since[0].at, g)
		for _, u := range since {
			would.advance(u.before, u.at)
			n = min(n, would.lack)
			would.bind(u.before, u.after, u.at)
		}
		would.advance(t, now)
	} else {
		would.setGranted(t, now, g)
	}
	return min(n, would.lack)
}

// setGranted puts the bucket into the state that it would be in now if nothing had been
// taken after the grant.
func (b *Bucket) setGranted(t *Terms, now int64, g Grant) {
	if g.Level.Full != Never {
		b.SetLevel(t, now, g.Level)
		return
	}
	*b = Bucket{lack: g.Lack, tick: g.Tick} // too long until full for a level to tell
	b.advance(t, now)
}

func (b *Bucket) ready(t *Terms, now int64, n int) int64 {
	need := n - (t.Limit - b.lack)
	if need <= 0 {
		return now
	}
	return b.tickAfter(t, t.Ticks(need))
}

func (b *Bucket) whole(t *Terms, now int64) int64 {
	if b.lack == 0 {
		return now
	}
	return b.tickAfter(t, t.Ticks(b.lack-b.Due()))
}

// Due returns how many tokens that an Update has set aside wait for Replenish.
func (b *Bucket) Due() int { return min(b.due, b.lack) }

func (b *Bucket) idle(*Terms) (int64, bool) { return b.tick, b.lack == 0 }

// kept is true unless the bucket stood full at a tick that would have brought more.
func (b *Bucket) kept(t *Terms, due, now int64) bool { return b.lack > 0 || now-due < t.Span }

func (b *Bucket) spent() bool { return b.lack == 0 }

func (b *Bucket) clone() Account {
	c := *b
	return &c
}
