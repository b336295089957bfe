package core

// TryAcquire takes permits if they are available now, and otherwise rejects the request: see
// [Limiter]. It does not wait. Unless the order is [NewestFirst], it also rejects a request for
// permits while another request waits, even if the permits are available.
func (e *engine) TryAcquire(permits int) Lease {
	if k, decided := e.try(permits, false); decided {
		return k
	}
	return e.trySlow(permits, false)
}

// TryQuietly is like TryAcquire, but does not count a rejection: see the function [TryQuietly].
func (e *engine) TryQuietly(permits int) (Lease, bool) {
	k, decided := e.try(permits, true)
	if !decided {
		k = e.trySlow(permits, true)
	}
	return k, k.Acquired()
}

// try decides a request that can be decided from the available permits alone; decided is false for others. A
// quiet request leaves no trace if it is not granted.
func (e *engine) try(n int, quiet bool) (k Lease, decided bool) {
	e.mu.Lock()
	s := e.simpleLocked(n)
	if s == nil {
		e.mu.Unlock()
		return Lease{}, false
	}
	now := int64(0)
	if s.Held() {
		p := e.heldPermits()
		if left, _, _, ok := p.Try(&s.Terms, 0, n); ok { // called directly, not as an Account (bench: Concurrency)
			e.granted++
			k = p.holdLocked(s, n, left, &e.clock)
			e.mu.Unlock()
			return k, true
		}
	} else {
		now = e.nowLocked(s)
		s = e.settings.Load()
	}
	left, fullAt, readyAt, ok := e.m.Account().Try(&s.Terms, now, n)
	if ok {
		e.granted++
	} else if !quiet {
		e.rejected++
	}
	e.mu.Unlock()
	if quiet && !ok {
		return Lease{}, true
	}
	return s.decision(now, n, left, fullAt, readyAt, ok), true
}

// simpleLocked returns the settings if a request for n permits can be decided from the available permits
// alone: the limiter is open, no request waits, and n is at least 1 and no more than the limit.
// Such requests are decided without the rest of the engine (bench: bucket, windows). For others
// it returns nil.
func (e *engine) simpleLocked(n int) *settings {
	s := e.settings.Load()
	if s == nil || e.closed || !e.m.Empty() || s.Manual() || n <= 0 || n > s.Limit {
		return nil
	}
	return s
}

// decision makes the lease of such a request, after the mutex is free. Settle finds the window by the time of the
// grant. If a calendar's clock was set back, that time may lie before the window, and the start of the window is
// used.
func (s *settings) decision(now int64, n, left int, fullAt, readyAt int64, ok bool) Lease {
	o, at := granted, max(now, s.From)
	if !ok {
		o, at = exhausted, max(readyAt-now, 1)
	}
	if b, ok := packUsual(n, left); ok {
		return Lease{h: &s.shared, bits: uint64(o) | b, reset: until(fullAt, now), at: at}
	}
	return newLease(&s.shared, o, n, left, until(fullAt, now), at)
}

// trySlow decides the requests that try does not decide: it calls the machine.
func (e *engine) trySlow(n int, quiet bool) (l Lease) {
	switch {
	case n < 0:
		return e.failure(negative, 0)
	case e.settings.Load() == nil:
		return e.failure(closed, 0)
	}
	now := e.lockAndServe()
	switch {
	case e.closed:
		l = e.failure(closed, 0)
	case !quiet:
		l = e.answerLocked(e.m.Try(now, n), n)
	default:
		if a, ok := e.m.TryQuietly(now, n); ok {
			l = e.answerLocked(a, n)
		}
	}
	e.unlockAndWake(now)
	return l
}
