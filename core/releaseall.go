package core

// ReleaseAll releases each of the leases, as Release does. Permits of adjacent leases of one
// concurrency limiter come back together, and its waiters are served once. If the release
// function of a [Grant] panics, ReleaseAll still releases the other leases.
func ReleaseAll(leases []Lease) {
	var e *engine // whose permits n are not given back yet
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
		if l.outcome() != held {
			continue
		}
		h := l.h
		if h.x != nil || h.settings().hook != nil {
			e.giveBackAll(n) // first, because the release may call a function that waits for them
			e, n = nil, 0
			l.Release()
			continue
		}
		k, owner := l.permits(), h.settings().owner
		if !h.end(l.at) {
			continue
		}
		if owner != e || n+k < n {
			e.giveBackAll(n)
			e, n = owner, 0
		}
		n += k
		owner.discard(h)
	}
}

// giveBackAll gives back the n permits that leases of e held, if n is not 0.
func (e *engine) giveBackAll(n int) {
	if n > 0 {
		e.giveBack(n)
	}
}
