package core

// ReleaseAll releases each of the leases, as Release does. Permits of adjacent leases of one
// concurrency limiter come back together, and its waiters are served once. If the release
// function of a [Grant] panics, ReleaseAll still releases the other leases.
func ReleaseAll(leases []Lease) {
	next := 0
	defer func() {
		if next < len(leases) { // the one before panicked
			ReleaseAll(leases[next:])
		}
	}()
	for next < len(leases) {
		e := leases[next].simpleOwner()
		if e == nil {
			next++
			leases[next-1].Release()
			continue
		}
		e.mu.Lock()
		n := 0
		for ; next < len(leases) && leases[next].simpleOwner() == e; next++ {
			l := leases[next]
			if k := l.permits(); l.h.generation == l.at && n+k >= n {
				n += k
				l.h.generation++
				e.permits().spareLocked(e, l.h, l.h.settings())
			} else if l.h.generation == l.at {
				break // the sum would overflow
			}
		}
		if n > 0 {
			e.m.Release(0, n)
		}
		e.unlock(0)
	}
}

// simpleOwner returns the concurrency limiter whose permits the lease holds, if they are all that its release
// has to think of, or nil.
func (l Lease) simpleOwner() *engine {
	if l.outcome() != held || l.h.x != nil {
		return nil
	}
	if s := l.h.settings(); s.hook == nil {
		return s.owner
	}
	return nil
}
