package core

// ReleaseAll releases each of the leases, as Release does. Permits of adjacent leases of one
// concurrency limiter come back together, and its waiters are served once. If the release
// function of a [Grant] panics, ReleaseAll still releases the other leases.
func ReleaseAll(leases []Lease) {
	var e *engine
	n, next := 0, 0
	defer func() {
		e.giveBackAll(n)
		if next < len(leases) { // the one before panicked
			ReleaseAll(leases[next:])
		}
	}()
	for next < len(leases) {
		l := leases[next]
		next++
		t := l.t
		if l.outcome() != held || l.bits&hot != 0 || t.e == nil || t.x != nil {
			l.Release()
			continue
		}
		if !t.end(l.generation()) {
			continue
		}
		k := l.permits()
		if t.e != e || n+k < n {
			e.giveBackAll(n)
			e, n = t.e, 0
		}
		n += k
		e.m.Account().(*permitAccount).discard(t)
	}
}

// giveBackAll gives back the n permits that leases of e held, if n is not 0.
func (e *engine) giveBackAll(n int) {
	if n > 0 {
		e.epoch.Load().giveBack(0, n)
	}
}
