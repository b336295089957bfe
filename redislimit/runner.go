package redislimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// runner is the goroutine that calls the store while there is something to ask. There is
// one, but for those whose store does not keep its promise to return when the context is
// done: they are left alone with it, and another takes over.
type runner struct {
	e    *engine
	gone bool          // it was left alone; guarded by the engine's mutex
	done chan struct{} // closed at its end; nil: nobody waits for that; guarded likewise
	call *call         // under way; guarded by the engine's mutex

	buffers
}

// buffers are what a runner needs for each call, and leaves to the next one.
type buffers struct {
	args    []int64
	ops     []*op
	answers []answer
	woken   []chan struct{}
	take    *take // on its way in a batch, at most once; nil: there was none
}

// mostKept is how many operations the memory that an idle limiter keeps is for, at most.
const mostKept = 64

// kept returns the buffers, if they are small.
func (b buffers) kept() buffers {
	if cap(b.ops) > mostKept {
		return buffers{}
	}
	return b
}

// endLocked returns what is closed when the runner has ended.
func (r *runner) endLocked() chan struct{} {
	if r.done == nil {
		r.done = make(chan struct{})
	}
	return r.done
}

// stopLocked is the runner's end: there is nothing more to ask.
func (r *runner) stopLocked() {
	if r.done != nil {
		close(r.done)
		r.done = nil
	}
	if r.gone {
		return
	}
	r.e.runner, r.call = nil, nil
	r.buffers = r.kept()
	r.e.spare = r
}

// call is one call of the store.
type call struct {
	callContext

	t       *terms
	ops     []*op
	answers []answer // room for those to them
	queued  int      // the last of them, which are of the queue
	sent    time.Time
	ended   bool // guarded by the engine's mutex
}

const (
	mostOps    = 2000 // in a call
	mostQueued = 64   // of them, of the queue
)

// callLocked sees to it that somebody makes calls, once the mutex is free.
func (e *engine) callLocked() {
	if e.runner != nil {
		return
	}
	if e.runner = e.spare; e.runner == nil {
		e.runner = &runner{e: e}
	}
	e.spare, e.starts = nil, e.runner
}

// run makes calls until nothing is left to be asked.
func (r *runner) run() {
	for r.step(nil) {
		// Those who were answered may ask again, and should all travel in the next call.
		runtime.Gosched()
	}
}

// step makes a call, and reports whether there may be another to make. For own, which is the
// caller's, it is one call only: what is left to be asked is left to a goroutine, and if own is
// not decided then, its done is made.
func (r *runner) step(own *op) (more bool) {
	e := r.e
	e.mu.Lock()
	c := e.callOfLocked(time.Now(), r.ops[:0])
	if c == nil {
		r.stopLocked()
		e.unlock()
		return false
	}
	c.answers, r.call = r.answers[:0], c
	e.unlock()

	if own == nil {
		c.begin(func() { r.abandon(c) })
	} else {
		defer r.rescue(c)
	}
	got, err := r.runScript(c, r.arguments(c))
	c.end()
	now := time.Now()

	e.mu.Lock()
	woken := r.dealOutLocked(c, got, err, now)
	more = !r.gone
	switch {
	case r.gone:
		r.stopLocked()
	case own != nil:
		r.passOnLocked()
		more = false
		if !own.decided {
			own.openLocked()
		}
	}
	e.unlock()
	for _, done := range woken {
		close(done)
	}
	if more {
		clear(woken)
		r.woken = woken
	}
	return more
}

// dealOutLocked deals out what the store returned, and returns what is to be closed once the mutex is
// free: many who woke at once would find it taken.
func (r *runner) dealOutLocked(c *call, got []int64, err error, now time.Time) (woken []chan struct{}) {
	e := r.e
	if many := len(c.ops); many > 1 {
		e.woken = slices.Grow(r.woken[:0], many)
	}
	if c.ended {
		e.lateLocked(c, got, err)
	} else {
		e.finishLocked(c, got, err, now)
	}
	woken, e.woken = e.woken, nil
	clear(c.ops)
	r.ops, r.answers = c.ops, c.answers
	return woken
}

// passOnLocked leaves what is to be asked to a goroutine.
func (r *runner) passOnLocked() {
	if e := r.e; len(e.next) > 0 || e.kick || e.stock.returning {
		e.starts = r
	} else {
		r.stopLocked()
	}
}

// rescue is for a store that panics on the goroutine of a caller who may go on: the call has failed.
func (r *runner) rescue(c *call) {
	if c.ended {
		return
	}
	c.end()
	e := r.e
	e.mu.Lock()
	e.finishLocked(c, nil, errPanicked, time.Now())
	r.passOnLocked()
	e.unlock()
}

var errPanicked = errors.New("it panicked")

// abandon is what happens when a call takes longer than any who asked can wait.
func (r *runner) abandon(c *call) {
	e := r.e
	e.mu.Lock()
	if !c.ended && !r.gone {
		e.finishLocked(c, nil, context.DeadlineExceeded, time.Now())
		r.gone = true
		e.runner = nil // another takes over
		if len(e.next) > 0 || e.kick {
			e.callLocked()
		}
	}
	e.unlock()
}

// arguments returns those of the script.
func (r *runner) arguments(c *call) []int64 {
	a := c.t.head(r.args[:0], r.e.holder)
	if c.plain() {
		if a = append(a, c.ops[0].n); len(c.ops) > 1 {
			a = append(a, int64(len(c.ops)))
		}
		r.args = a
		return a
	}
	for ops := c.ops; len(ops) > 0; {
		o, many := ops[0], c.t.run(ops)
		ops = ops[many:]
		switch {
		case many > 1:
			a = append(a, int64(opRun), o.n, o.x, int64(many))
		case o.kind == opBind:
			a = append(a, int64(opBind), int64(o.bind.limit), o.bind.step, o.bind.span)
		case o.kind == opGive && c.t.timed():
			a = append(a, int64(o.kind), o.n, o.x, o.back.spare, o.back.refunds)
		default:
			a = append(a, int64(o.kind), o.n, o.x)
		}
	}
	r.args = a
	return a
}

// callOfLocked returns the call of all that is to be asked, nil if there is nothing. ops is
// for its operations.
func (e *engine) callOfLocked(now time.Time, ops []*op) *call {
	if len(e.next) == 0 && !e.kick && !e.stock.returning {
		return nil
	}
	c := &call{t: e.t, ops: ops, sent: now}
	c.deadline = now.Add(e.shared.Budget)
	if o := e.stock.takeBack(now); o != nil {
		c.ops = append(c.ops, o)
	}
	back := len(c.ops)
	e.newcomersLocked(c, now)
	if e.kick {
		e.kick = false
		e.queuedLocked(c, now)
	}
	returning := e.stock.returning
	e.stock.returning = false
	if len(c.ops) == back && (back == 0 || !returning) {
		if back > 0 {
			e.stock.putBack(c.ops[0])
		}
		return nil
	}
	if n := e.aheadLocked(c, now); n > 0 {
		c.ops = append(c.ops, &op{kind: opAhead, n: n})
	}
	return c
}

// newcomersLocked puts those into the call who have not been asked for.
func (e *engine) newcomersLocked(c *call, now time.Time) {
	room, binds := e.t.queueLimit-e.queue.permits, 0
	next := e.next
	e.next = nil
	for i, o := range next {
		if len(c.ops) >= mostOps {
			e.next = append(e.next, next[i:]...)
			return
		}
		if o.kind == opTake {
			if !e.stillAsksLocked(o, now) {
				continue
			}
			o.x = 0
			// Whoever will wait if it is refused lets nobody pass.
			if o.waits && o.n > 0 {
				if e.t.order == core.OldestFirst && int(o.n) <= room {
					o.x, room = flagBlocks, room-int(o.n)
				}
				if !e.t.timed() && e.t.queueLimit > 0 {
					o.x |= flagWaited
				}
			}
		}
		if !o.due.IsZero() && o.due.Before(c.deadline) {
			c.deadline = o.due
		}
		if o.kind == opBind {
			c.ops = slices.Insert(c.ops, binds, o)
			binds++
			continue
		}
		c.ops = append(c.ops, o)
	}
	if e.next == nil && cap(next) <= mostKept {
		clear(next)
		e.next = next[:0]
	}
}

// stillAsksLocked reports whether a newcomer is still to be asked for, and decides it if not.
func (e *engine) stillAsksLocked(o *op, now time.Time) bool {
	switch {
	case o.dropped || o.decided:
	case e.closed:
		e.refuseLocked(o, core.ErrClosed)
	case int(o.n) > e.t.limit:
		e.refuseLocked(o, &core.ExceedsLimitError{Limiter: e.t.name, Permits: int(o.n), Limit: e.t.limit})
	case o.n > 0 && e.queue.oldest != nil && e.t.order == core.OldestFirst:
		e.missLocked(o, now)
	case !now.Before(o.due):
		e.awayLocked(o, fmt.Errorf("%w: %w", ErrStore, context.DeadlineExceeded))
	case e.breaker.down && !o.probe:
		e.awayLocked(o, e.breaker.err)
	default:
		return true
	}
	if o.probe {
		e.breaker.probing = false
	}
	return false
}

// queuedLocked puts those into the call who wait.
func (e *engine) queuedLocked(c *call, now time.Time) {
	q := &e.queue
	if q.empty() || e.breaker.down && (e.breaker.probing || now.Before(e.breaker.probeAt)) {
		return
	}
	e.breaker.probing = e.breaker.down
	q.asking, q.asked = true, now
	for o := q.head(e.t.order); o != nil && c.queued < mostQueued; o = o.after(e.t.order) {
		o.x = flagBlocks | flagWaited
		c.ops = append(c.ops, o)
		c.queued++
	}
	for o := q.probes; o != nil && c.queued < 2*mostQueued; o = o.next {
		o.x = flagWaited
		c.ops = append(c.ops, o)
		c.queued++
	}
}

// retryOf returns when a refusal's permits can be there; zero: it is not known.
func retryOf(a answer, now time.Time) time.Time {
	if a.retry <= 0 {
		return time.Time{}
	}
	if d := lasts(a.retry); d < math.MaxInt64 {
		return now.Add(d)
	}
	return now.Add(math.MaxInt64)
}
