package redislimit

import (
	"math/rand/v2"
	"slices"
	"time"
)

// keeper holds the concurrency leases of this process. While there are any, a goroutine renews them every third of the TTL;
// it also sends releases again that the store may not have received. The engine's mutex guards it.
type keeper struct {
	e *engine

	holder   int64 // distinguishes the leases of this limiter from those of others
	leases   []*lease
	since    time.Time // if there are none: since when
	lastID   int64     // that was given out
	releases []pending // to be sent to the server again

	renewAt   time.Time // when to renew next
	releaseAt time.Time // when to send the releases next
	backoff   time.Duration
	wake      chan struct{} // wakes the goroutine, has room for one; nil: there is none
	ended     chan struct{} // closed at its end
	clock     clock
}

// pending is a release that is to be sent to the server again.
type pending struct {
	id    int64
	until time.Time // then it does not matter any more

	// Whether the lease is known to have been granted. If not, the answer to a take was lost: the
	// server may have executed it, may execute it later, or never.
	known  bool
	misses int // how often the server did not know the lease
}

const (
	mostRenewed = 2000 // in a call
	mostMisses  = 3    // of a take whose answer was lost; by then a server that answers has read what was sent before
	mostTTLs    = 10   // how long a server may stand still and then execute what was sent before
)

// nameLocked gives a take of a concurrency limiter the id that this try is known by.
func (k *keeper) nameLocked(t *take) {
	if t.id = 0; !k.e.limits.rate() && t.permits > 0 {
		t.id = k.newIDLocked()
	}
}

func (k *keeper) newIDLocked() int64 {
	k.lastID++
	return k.lastID
}

// lifetime returns how long a lease certainly lives after a call was sent: a tenth of its TTL is
// for clocks that differ.
func (k *keeper) lifetime() time.Duration { return k.e.shared.TTL - k.e.shared.TTL/10 }

// holdLocked records the lease that was granted by a call sent then.
func (k *keeper) holdLocked(id, permits int64, a answer, sent time.Time) *lease {
	l := &lease{e: k.e, id: id, token: a.token, permits: permits, until: sent.Add(k.lifetime()), place: len(k.leases)}
	l.loss = time.AfterFunc(time.Until(l.until), l.loseIfLate)
	k.leases = append(k.leases, l)
	k.runLocked()
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
		k.e.canceled = append(k.e.canceled, func() { (*cancel)(how.cause()) })
	}
	l.ends = nil
	last := len(k.leases) - 1
	k.leases[l.place], k.leases[last].place = k.leases[last], l.place
	k.leases[last] = nil
	k.leases = k.leases[:last]
	if last == 0 {
		k.since = time.Now()
		k.wakeLocked()
	}
}

// renew returns the operation that renews a lease, with the permits that it has now.
func (k *keeper) renew(l *lease) *operation {
	o := renew(l.id, l.permits)
	o.then = func(sent time.Time, a answer, err error) {
		switch {
		case err != nil:
		case a.done == 1:
			l.until = sent.Add(k.lifetime())
			l.loss.Reset(time.Until(l.until))
		default: // it is over, or the server has lost its data
			k.endLocked(l, lost)
			k.e.queue.asks = !k.e.queue.empty()
		}
	}
	return o
}

// release returns the operation that releases a lease at the store. If it fails, it is sent again.
func (k *keeper) release(l *lease) *operation {
	return k.releasePending(pending{id: l.id, known: true, until: l.until})
}

func (k *keeper) releasePending(p pending) *operation {
	o := release(p.id)
	o.then = func(_ time.Time, a answer, err error) {
		if err == nil && a.done == 0 {
			p.misses++
		}
		if err != nil || a.done == 0 && !p.known && p.misses < mostMisses {
			k.releaseAgainLocked(p)
		}
	}
	return o
}

// charge returns the operation that takes permits, available or not, and then calls got with their lease.
func (k *keeper) chargeLocked(permits int64, got func(*lease)) *operation {
	id := k.newIDLocked()
	o := chargeLease(id, permits)
	o.then = func(sent time.Time, a answer, err error) {
		if err != nil {
			k.orphanLocked(id)
		} else {
			got(k.holdLocked(id, permits, a, sent))
		}
	}
	return o
}

// releaseAgainLocked has the goroutine send a release.
func (k *keeper) releaseAgainLocked(p pending) {
	k.releases = append(k.releases, p)
	k.runLocked()
	if k.releaseAt.IsZero() {
		k.releaseAt = time.Now().Add(k.backoff)
	}
	k.wakeLocked()
}

// orphanLocked releases what a take may have been granted whose answer was lost.
func (k *keeper) orphanLocked(id int64) {
	k.releaseAgainLocked(pending{id: id, until: time.Now().Add(mostTTLs * k.e.shared.TTL)})
}

// closeLocked gives up the releases of what is not known to be held, and returns what is closed when the goroutine has ended;
// nil: it goes on.
func (k *keeper) closeLocked() <-chan struct{} {
	k.releases = slices.DeleteFunc(k.releases, func(p pending) bool { return !p.known })
	if k.wake == nil || len(k.leases)+len(k.releases) > 0 {
		return nil
	}
	k.wakeLocked()
	return k.ended
}

// learnLocked compares the server's clock with this process', by a call that was sent then. If it went past the end of leases,
// they are renewed at once: some may be lost.
func (k *keeper) learnLocked(server int64, sent, now time.Time) {
	if k.clock.stepped(server, sent, now, k.e.shared.TTL/10) && len(k.leases) > 0 {
		k.renewAt = now
		k.wakeLocked()
	}
}

// clock notices when the server's clock steps forward, past the end of leases.
type clock struct {
	server int64 // the server's instant in the latest answer, in microseconds; 0: there was none
	sent   time.Time
}

// stepped records the server's instant, of a call from sent to received, and reports whether it
// is ahead of the one before by more than d in addition to the time that has passed here.
func (c *clock) stepped(server int64, sent, received time.Time, d time.Duration) bool {
	before := *c
	*c = clock{server, sent}
	return before.server != 0 && lasts(max(server-before.server, 0)) > received.Sub(before.sent)+d
}

// jitter returns d less up to a tenth of it.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d/10)+1)) //nolint:gosec // no secret
}
