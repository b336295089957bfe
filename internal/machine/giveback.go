package machine

// GiveBack returns n permits, at least 1, whichever grants took them, but no more than are missing. A
// window returns those that come back first, so that no window grants more than its limit. Waiters that
// now fit are served.
func (m *Machine[Value]) GiveBack(now int64, n int) {
	switch a := m.account.(type) {
	case *Bucket:
		a.giveBackAny(now, n)
	case *Segments:
		a.giveBackAny(now, n)
	default:
		return
	}
	m.forgetForecast()
	m.serve(now)
}

// giveBackAny returns n tokens. It is not known which grants took them, so once a token has come, earlier grants
// return nothing.
func (b *Bucket) giveBackAny(now int64, n int) {
	if n = min(n, b.missing); n == 0 {
		return
	}
	b.missing -= n
	if b.overdue = min(b.overdue, b.missing); b.missing == 0 {
		b.tick = now
	}
	b.last = &lastReturn{floor: Bucket{missing: b.missing, tick: b.tick, overdue: b.overdue}, since: now, at: now}
}

// giveBackAny returns n permits, those that come back first.
func (w *Segments) giveBackAny(now int64, n int) {
	if n = min(n, w.taken); n == 0 {
		return
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
}
