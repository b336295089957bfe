package redislimit

import (
	"math/rand/v2"
	"time"
)

// keeper holds the concurrency leases of this process. Every third of the TTL it has the client renew them. It also sends
// releases again that the store may not have received. The engine's mutex guards it.
type keeper struct {
	e *Limiter

	leases []*lease
	since  time.Time // when the latest lease ended
	lastID int64     // the last id that was used

	renewAt time.Time   // when to renew next
	timer   *time.Timer // nil until the first lease
	timerAt time.Time   // when the timer fires; zero if it is not set
}

// pending is a release that is to be sent to the server again.
type pending struct {
	id    int64
	until time.Time // stop retrying after this

	// misses is how often the server may still report no such lease before the release is given up. It is 1 for a lease that was
	// granted. If the reply to a request was lost, the server may have executed the request, may execute it later, or never.
	misses int

	backoff time.Duration // before it is sent again
}

const (
	maxMisses = 3  // maximum number of renewals of a lease that is not known; by then a server that replies has read all that was sent before
	maxTTLs   = 10 // how long a server may stand still and then execute earlier requests
)

// nameLocked gives an operation that takes permits of a concurrency limiter the id of the lease that it asks for.
func (k *keeper) nameLocked(o *operation) {
	if o.id = 0; !k.e.limits.rate() && o.permits > 0 {
		o.id = k.newIDLocked()
	}
}

func (k *keeper) newIDLocked() int64 {
	k.lastID++
	return k.lastID
}

// lifetime returns how long a lease certainly lives after its call was sent. A tenth of its TTL allows for clocks that differ.
func (k *keeper) lifetime() time.Duration { return k.e.options.TTL - k.e.options.TTL/10 }

// holdLocked records the lease that a call has granted. sent is when the call was sent.
func (k *keeper) holdLocked(id, permits int64, r result, sent time.Time) *lease {
	l := &lease{e: k.e, id: id, token: r.token, permits: permits, until: sent.Add(k.lifetime()), place: len(k.leases)}
	l.loss = time.AfterFunc(time.Until(l.until), l.loseIfLate)
	if k.leases = append(k.leases, l); k.timerAt.IsZero() || len(k.leases) == 1 && time.Now().After(k.renewAt) {
		k.renewAt = time.Now().Add(jitter(k.e.options.TTL / 3))
	}
	return l
}

// endLocked ends a lease, and its contexts once the mutex is free.
func (k *keeper) endLocked(l *lease, how end) {
	if l.end != live {
		return
	}
	l.end = how
	l.loss.Stop()
	for cancel := range l.ends {
		k.e.ends = append(k.e.ends, func() { (*cancel)(how.cause()) })
	}
	l.ends = nil
	last := len(k.leases) - 1
	k.leases[l.place], k.leases[last].place = k.leases[last], l.place
	k.leases[last] = nil
	k.leases = k.leases[:last]
	if last == 0 {
		k.since = time.Now()
	}
}

// renew returns the operation that renews a lease, with the permits that it has now.
func (k *keeper) renew(l *lease) *task {
	o := k.e.task(renewOp(l.id, l.permits, l.version))
	o.then = func(sent time.Time, r result, err error) {
		switch {
		case err != nil: // the server may have executed it
			if soon := time.Now().Add(jitter(k.e.options.TTL / 6)); soon.Before(k.renewAt) {
				k.renewAt = soon
			}
		case r.done == 1 && l.end == live:
			if until := sent.Add(k.lifetime()); until.After(l.until) {
				l.until = until
				l.loss.Reset(time.Until(l.until))
			}
		case r.done == 1 && l.end == lost: // the server still has it, and nothing renews it
			k.releaseLater(pending{id: l.id, misses: 1, until: sent.Add(k.e.options.TTL), backoff: minBackoff})
		default: // it has expired, or the server has lost its data
			k.endLocked(l, lost)
			k.e.asks = !k.e.queue.Empty()
		}
	}
	return o
}

// release returns the operation that releases a lease at the store. If it fails, it is sent again, for as long as the server
// may have the lease.
func (k *keeper) release(l *lease) *task {
	return k.releasePending(pending{id: l.id, misses: 1, until: time.Now().Add(k.e.options.TTL)})
}

func (k *keeper) releasePending(p pending) *task {
	o := k.e.task(releaseOp(p.id))
	o.then = func(_ time.Time, r result, err error) {
		switch {
		case err != nil:
			p.backoff = min(max(2*p.backoff, minBackoff), maxBackoff)
		case r.done == 0 && p.misses > 1:
			p.misses, p.backoff = p.misses-1, minBackoff
		default:
			return
		}
		k.releaseLater(p)
	}
	return o
}

// releaseLater has a release sent after its backoff, unless it is too late then. A closed limiter does not release leases that may
// not exist.
func (k *keeper) releaseLater(p pending) {
	time.AfterFunc(p.backoff, func() {
		k.e.mu.Lock()
		defer k.e.unlock()
		if now := time.Now(); now.Before(p.until) && (p.misses == 1 || !k.e.closed) {
			k.e.addLocked(k.releasePending(p), now)
		}
	})
}

// chargeLocked returns the operation that takes permits, available or not, and then calls got with their lease.
func (k *keeper) chargeLocked(permits int64, got func(*lease)) *task {
	id := k.newIDLocked()
	o := k.e.task(chargeLeaseOp(id, permits))
	o.then = func(sent time.Time, r result, err error) {
		if err != nil {
			k.orphanLocked(id)
		} else {
			got(k.holdLocked(id, permits, r, sent))
		}
	}
	return o
}

// orphanLocked schedules the release of a lease that may exist: the reply to its request was lost, so it is not known
// whether it was granted.
func (k *keeper) orphanLocked(id int64) {
	k.releaseLater(pending{id: id, misses: maxMisses, until: time.Now().Add(maxTTLs * k.e.options.TTL), backoff: minBackoff})
}

// setTimerLocked sets the timer to when the leases are to be renewed.
func (k *keeper) setTimerLocked() {
	if len(k.leases) == 0 || k.renewAt.Equal(k.timerAt) {
		return // a timer that fires without need costs less than stopping it with each lease
	}
	k.timerAt = k.renewAt
	if d := time.Until(k.renewAt); k.timer == nil {
		k.timer = time.AfterFunc(d, k.run)
	} else {
		k.timer.Reset(d)
	}
}

// run is called by the timer. It has the leases renewed. While the breaker is open, renewals fail without a call, except for a probe.
func (k *keeper) run() {
	k.e.mu.Lock()
	defer k.e.unlock()
	now := time.Now()
	k.timerAt = time.Time{}
	if now.Before(k.renewAt) {
		return
	}
	k.renewAt = now.Add(jitter(k.e.options.TTL / 3))
	for _, l := range k.leases {
		k.e.addLocked(k.renew(l), now)
	}
}

// jitter returns d less up to a tenth of it.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d/10)+1))
}
