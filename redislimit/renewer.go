package redislimit

import (
	"math/rand/v2"
	"time"
)

// renewer is the goroutine that renews leases while any are held, every third of the TTL, and
// that sends releases again that the store may not have received.
type renewer struct {
	e       *engine
	at      time.Time     // when to renew next; the engine's mutex guards it
	backoff time.Duration // until the releases are sent again
	wake    chan struct{} // has room for one
	done    chan struct{} // closed at its end
}

// release is a release that is to be sent to the server again.
type release struct {
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
)

// renewLocked sees to it that there is a renewer.
func (e *engine) renewLocked() {
	if l := &e.leases; l.renewer == nil {
		l.renewer = &renewer{
			e: e, at: time.Now().Add(jitter(e.shared.TTL / 3)), backoff: firstBackoff,
			wake: make(chan struct{}, 1), done: make(chan struct{}),
		}
		go l.renewer.run()
	}
}

// releaseAgainLocked has the renewer send a release.
func (e *engine) releaseAgainLocked(r release) {
	e.leases.releases = append(e.leases.releases, r)
	e.renewLocked()
	e.leases.renewer.wakeUp()
}

// orphanLocked releases what a take may have been granted whose answer was lost.
func (e *engine) orphanLocked(id int64) {
	e.releaseAgainLocked(release{id: id, until: time.Now().Add(time.Duration(mostTTLs) * e.shared.TTL)})
}

// mostTTLs is how long a server may stand still and then execute what was sent before.
const mostTTLs = 10

// wakeUp has the renewer look again at what there is to do.
func (w *renewer) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// jitter returns d less up to a tenth of it.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d/10)+1)) //nolint:gosec // no secret
}

func (w *renewer) run() {
	defer close(w.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var releaseAt time.Time // zero: there is nothing to release
	for {
		now := time.Now()
		at, releases, over := w.next()
		switch {
		case over:
			return
		case !releases:
			releaseAt = time.Time{}
		case releaseAt.IsZero():
			releaseAt = now.Add(w.backoff)
		}
		if releases && (at.IsZero() || releaseAt.Before(at)) {
			at = releaseAt
		}
		if at.After(now) {
			timer.Reset(at.Sub(now))
			select {
			case <-timer.C:
			case <-w.wake:
			}
			continue
		}
		w.work(now)
		releaseAt = time.Time{}
	}
}

// next returns when to renew, zero if no lease is held, whether there are releases to send, and
// whether there is nothing more to do: then the renewer is no more.
func (w *renewer) next() (renewAt time.Time, releases, over bool) {
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	l := &e.leases
	if over = len(l.all)+len(l.releases) == 0; over {
		l.renewer = nil
	}
	if len(l.all) > 0 {
		renewAt = w.at
	}
	return renewAt, len(l.releases) > 0, over
}

// work sends the releases and, if it is time to, renews all leases.
func (w *renewer) work(now time.Time) {
	requests, releases, terms := w.due(now)
	failed, kept := false, releases[:0]
	for len(requests) > 0 {
		n := min(len(requests), mostRenewed)
		answers, err := w.call(terms, requests[:n])
		for i, r := range requests[:n] {
			if r.code != opRelease {
				continue
			}
			one := releases[0]
			releases = releases[1:]
			if err == nil && answers[i].done == 0 {
				one.misses++
			}
			if err != nil || answers[i].done == 0 && !one.known && one.misses < mostMisses {
				kept = append(kept, one)
			}
		}
		failed = failed || err != nil
		requests = requests[n:]
	}
	w.end(now, kept, failed)
}

// due returns what there is to ask: first the releases, then, if it is time, the renewals.
func (w *renewer) due(now time.Time) (requests []*request, releases []release, t *terms) {
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.leases.releases {
		if now.Before(r.until) {
			releases = append(releases, r)
			requests = append(requests, &request{op: op{code: opRelease, id: r.id}})
		}
	}
	e.leases.releases = nil
	if !now.Before(w.at) {
		for _, h := range e.leases.all {
			requests = append(requests, &request{op: op{code: opRenew, id: h.id, permits: h.permits}, lease: h})
		}
	}
	return requests, releases, e.terms
}

// call asks the store, within a sixth of the TTL. Renewals are sent even if the store is known to be
// unreachable, as a lease ends without them; releases alone are not.
func (w *renewer) call(t *terms, requests []*request) (answers []answer, err error) {
	e, sent := w.e, time.Now()
	var trial bool
	if requests[len(requests)-1].code == opRelease {
		if trial, err = e.guard.enter(sent); err != nil {
			return nil, err
		}
	}
	within := max(e.shared.TTL/6, e.shared.Budget)
	ask := script{t.script(), e.keys, t.encode(nil, e.holder, sent, requests), within, sent.Add(within), trial, nil}
	var got reply
	err = e.guard.ask(ask, func(numbers []int64) (err error) {
		got, err = t.decode(numbers, requests, nil)
		return err
	})
	e.mu.Lock()
	defer e.unlock()
	switch {
	case err != nil:
		return nil, err
	case got.conflict != 0: // the server has lost its data
		got.answers = make([]answer, len(requests))
	default:
		e.leases.clock.stepped(got.now, sent, time.Now(), 0)
	}
	for i, r := range requests {
		if r.code == opRenew {
			e.renewedLocked(r.lease, got.answers[i], sent)
		}
	}
	e.askWaiters = e.askWaiters || !e.queue.empty()
	return got.answers, nil
}

// renewedLocked records the answer to a renewal.
func (e *engine) renewedLocked(h *held, a answer, sent time.Time) {
	if a.done == 1 {
		h.until = sent.Add(e.lifetime())
	} else { // it is over, or the server has lost its data
		e.endLocked(h, lost)
	}
}

// end puts back the releases that failed, and decides when to work next.
func (w *renewer) end(begun time.Time, kept []release, failed bool) {
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leases.releases = append(kept, e.leases.releases...)
	now, pause, backoff := time.Now(), e.shared.TTL/3, firstBackoff
	if failed {
		pause, backoff = e.shared.TTL/6, min(2*w.backoff, lastBackoff)
	}
	w.backoff = backoff
	if next := now.Add(jitter(pause)); !begun.Before(w.at) || failed && next.Before(w.at) {
		w.at = next
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
