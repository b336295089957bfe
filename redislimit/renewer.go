package redislimit

import (
	"slices"
	"time"
)

// runLocked sees to it that the keeper's goroutine runs.
func (k *keeper) runLocked() {
	if k.wake == nil {
		k.renewAt, k.releaseAt, k.backoff = time.Now().Add(jitter(k.e.shared.TTL/3)), time.Time{}, firstBackoff
		k.wake, k.ended = make(chan struct{}, 1), make(chan struct{})
		go k.run(k.wake, k.ended)
	}
}

// wakeLocked has the goroutine look again at what there is to do.
func (k *keeper) wakeLocked() {
	select {
	case k.wake <- struct{}{}:
	default: // it will, or there is none
	}
}

// run renews leases and sends releases, as long as there are any.
func (k *keeper) run(wake, ended chan struct{}) {
	defer close(ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at, more := k.next()
		if !more {
			return
		}
		if wait := time.Until(at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-wake:
			}
			continue
		}
		k.work()
	}
}

// next returns when there is something to do. If there is nothing more to do, the goroutine is no more.
func (k *keeper) next() (at time.Time, more bool) {
	k.e.mu.Lock()
	defer k.e.unlock()
	if len(k.leases)+len(k.releases) == 0 {
		k.wake = nil
		return time.Time{}, false
	}
	if len(k.leases) == 0 || len(k.releases) > 0 && k.releaseAt.Before(k.renewAt) {
		return k.releaseAt, true
	}
	return k.renewAt, true
}

// work sends the releases and, if it is time to, renews all leases.
func (k *keeper) work() {
	begun := time.Now()
	ops, limits, renews := k.due(begun)
	failed := false
	for some := range slices.Chunk(ops, mostRenewed) {
		if !k.send(&call{limits: limits, ops: some}, renews) {
			failed = true
		}
	}
	k.worked(begun, failed)
}

// due returns what there is to ask: the releases and, if it is time, the renewals.
func (k *keeper) due(now time.Time) (ops []*operation, l *limits, renews bool) {
	k.e.mu.Lock()
	defer k.e.unlock()
	for _, p := range k.releases {
		if now.Before(p.until) {
			ops = append(ops, k.releasePending(p))
		}
	}
	k.releases = nil
	if renews = len(k.leases) > 0 && !now.Before(k.renewAt); renews {
		for _, l := range k.leases {
			ops = append(ops, k.renew(l))
		}
	}
	return ops, k.e.limits, renews
}

// send asks the store, within a sixth of the TTL, and reports whether it has answered. Renewals are sent even if the store is
// known to be unreachable, as a lease ends without them; releases alone are not.
func (k *keeper) send(c *call, renews bool) bool {
	e := k.e
	within := max(e.shared.TTL/6, e.shared.Timeout)
	c.sent = time.Now()
	c.deadline = c.sent.Add(within)
	c.encode(k.holder, c.sent)
	s := c.script(e, within)
	s.urgent = renews
	err := e.guard.ask(s, c.decode)
	e.mu.Lock()
	defer e.unlock()
	answers := c.reply.ops
	if err != nil || c.reply.conflict != 0 { // a conflict: the server has lost its data
		answers = make([]answer, len(c.ops))
	}
	for i, o := range c.ops {
		e.endLocked(o, c.sent, answers[i], err)
	}
	e.queue.asks = e.queue.asks || err == nil && !e.queue.empty()
	return err == nil
}

// worked decides when to work next.
func (k *keeper) worked(begun time.Time, failed bool) {
	k.e.mu.Lock()
	defer k.e.unlock()
	now, pause, backoff := time.Now(), k.e.shared.TTL/3, firstBackoff
	if failed {
		pause, backoff = k.e.shared.TTL/6, min(2*k.backoff, lastBackoff)
	}
	k.backoff = backoff
	if k.releaseAt = (time.Time{}); len(k.releases) > 0 {
		k.releaseAt = now.Add(backoff)
	}
	if next := now.Add(jitter(pause)); !begun.Before(k.renewAt) || failed && next.Before(k.renewAt) {
		k.renewAt = next
	}
}
