package redislimit

import (
	"context"
	"math/rand/v2"
	"time"
)

// keeper is the goroutine that renews leases, while any are held, and tells the store of
// releases that it has not heard of.
type keeper struct {
	e    *engine
	wake chan struct{} // has room for one
	done chan struct{} // closed at its end
}

const mostRenewed = 2000 // in a call

// keepLocked sees to it that somebody keeps the leases.
func (e *engine) keepLocked() {
	if l := &e.leases; l.keeper == nil {
		l.keeper = &keeper{e: e, wake: make(chan struct{}, 1), done: make(chan struct{})}
		go l.keeper.run()
	}
}

// poke has the keeper look again.
func (k *keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run renews every third of the TTL, with jitter, and within a sixth after a failure.
func (k *keeper) run() {
	defer close(k.done)
	e := k.e
	pause, backoff := k.jitter(e.shared.TTL/3), firstBackoff
	timer := time.NewTimer(pause)
	defer timer.Stop()
	renewAt, tellAt := time.Now().Add(pause), time.Time{}
	for {
		e.mu.Lock()
		held, untold := len(e.leases.all), len(e.leases.untold)
		if held == 0 && untold == 0 {
			e.leases.keeper = nil
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		switch {
		case untold == 0:
			tellAt = time.Time{}
		case tellAt.IsZero():
			tellAt = time.Now().Add(backoff)
		}
		timer.Reset(time.Until(earlier(renewAt, tellAt)))
		select {
		case <-timer.C:
		case <-k.wake:
			continue
		}
		failed := k.keep(!time.Now().Before(renewAt))
		tellAt = time.Time{}
		switch {
		case failed:
			renewAt = earlier(renewAt, time.Now().Add(k.jitter(e.shared.TTL/6)))
			backoff = min(2*backoff, lastBackoff)
		default:
			backoff = firstBackoff
		}
		if now := time.Now(); !now.Before(renewAt) {
			pause := e.shared.TTL / 3
			if failed {
				pause = e.shared.TTL / 6
			}
			renewAt = now.Add(k.jitter(pause))
		}
	}
}

// jitter returns d less up to a tenth of it.
func (k *keeper) jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d/10)+1)) //nolint:gosec // no secret
}

// keep tells of releases, renews if it is time to, and reports whether a call failed.
func (k *keeper) keep(renew bool) (failed bool) {
	e := k.e
	e.mu.Lock()
	now := time.Now()
	var ops []*op
	for _, h := range e.leases.untold {
		if now.Before(h.tryUntil) {
			ops = append(ops, &op{kind: opGive, n: h.token, lease: h})
		}
	}
	e.leases.untold = nil
	if renew {
		for _, h := range e.leases.all {
			ops = append(ops, &op{kind: opRenew, n: h.token, lease: h})
		}
	}
	t := e.t
	e.mu.Unlock()
	for len(ops) > 0 {
		n := min(len(ops), mostRenewed)
		failed = k.call(t, ops[:n]) || failed
		ops = ops[n:]
	}
	return failed
}

// call asks the store, within a sixth of the TTL, and reports whether it failed.
func (k *keeper) call(t *terms, ops []*op) (failed bool) {
	e := k.e
	c := &call{t: t, ops: ops, sent: time.Now()}
	c.deadline = c.sent.Add(max(e.shared.TTL/6, e.shared.Budget))
	args := t.head(nil, e.holder)
	for _, o := range ops {
		args = append(args, int64(o.kind), o.n, o.x)
	}
	c.begin(func() {})
	got, err := e.shared.Store.Run(c, t.script(), e.keys, args...)
	c.end()
	var r reply
	if err == nil {
		r, err = t.read(got, ops, nil)
	}
	var ends []map[*context.CancelCauseFunc]struct{}
	e.mu.Lock()
	e.answeredLocked(err, time.Now())
	for i, o := range ops {
		switch {
		case err != nil && o.kind == opGive:
			e.tellAgainLocked(o.lease)
		case err != nil || o.kind == opGive:
		case r.conflict == 0 && r.answers[i].status == 1:
			o.lease.until = c.sent.Add(e.lifetime())
		default: // it is not there: it is over, or the server has lost its data
			ends = append(ends, e.endLocked(o.lease, lost))
		}
	}
	if err == nil && !e.queue.empty() {
		e.kickLocked()
	}
	e.unlock()
	for _, m := range ends {
		for cancel := range m {
			(*cancel)(ErrLeaseLost)
		}
	}
	return err != nil
}

// tellAgainLocked has the keeper tell the store of a release, again.
func (e *engine) tellAgainLocked(h *held) {
	l := &e.leases
	l.untold = append(l.untold, h)
	e.keepLocked()
	l.keeper.poke() // it may sleep until it renews others
}
