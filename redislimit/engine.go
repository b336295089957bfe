package redislimit

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// engine is the part that the four limiters share. A take is decided by what is remembered (memory.go), or the pipeline asks
// the store. An Acquire that the store refuses waits in the queue. The keeper renews and releases concurrency leases.
type engine struct {
	shared  StoreOptions // with its defaults; no Store: not made by a constructor
	breaker *breaker
	states  *observer       // nil without OnState
	ready   func() bool     // reports whether the store returns by its context's deadline
	ending  context.Context // ends with Close, and late calls with it
	end     context.CancelFunc
	kind    kind
	keys    []string
	channel string      // where releases are published; "": they are not
	locals  wait.Source // ends the waits in Shared.Local at Close

	// mu guards the rest, and what the components say. It is let go by unlock, and only by that: a function takes it and lets
	// it go, or its name ends in Locked. It is held neither while the store is asked nor while anybody else's code runs. Of
	// other locks only the breaker's is taken under it.
	mu       sync.Mutex
	limits   *limits
	closed   bool
	memory   memory
	pipeline pipeline
	queue    queue
	keeper   keeper
	looked   time.Time // when Statistics last asked
	granted  uint64
	rejected uint64
	woken    []chan struct{} // to be closed when the mutex is free
	canceled []func()        // likewise, to be called
}

// start makes the engine ready. The shared options are valid, and have their defaults.
func (e *engine) start(s StoreOptions, l *limits) {
	e.shared, e.kind, e.limits, e.breaker = s, l.kind, l, breakerOf(s.Store)
	e.ending, e.end = context.WithCancel(context.Background()) //nolint:forbidigo // Close ends it
	e.ready = func() bool { return false }
	if r, ok := s.Store.(interface{ Ready() bool }); ok {
		e.ready = r.Ready
	}
	if s.OnState != nil {
		e.states = &observer{onState: s.OnState}
		e.breaker.observe(e.states)
	}
	limit := "{" + s.Key + "}:limit"
	e.keys = []string{limit}
	if l.window() {
		e.keys = append(e.keys, "{"+s.Key+"}:segments")
	}
	if !l.rate() {
		e.keys = append(e.keys, "{"+s.Key+"}:leases")
		e.channel = limit + ":released"
	}
	now := time.Now()
	e.memory = memory{left: l.limit, fullAt: now, forecast: forecast{limits: l}}
	e.pipeline.e, e.queue.e = e, e
	e.keeper = keeper{e: e, since: now, holder: rand.Int64N(most)}
}

// unlock lets go of the mutex. It sets the waiters' alarm, sees to it that somebody calls the store if there is something
// to ask, and wakes the callers whose requests were decided: not before, as they would find the mutex taken.
func (e *engine) unlock() {
	e.queue.setAlarmLocked()
	e.keeper.setTimerLocked()
	e.pipeline.startLocked()
	woken, canceled := e.woken, e.canceled
	e.woken, e.canceled = nil, nil
	e.mu.Unlock()
	for _, done := range woken {
		close(done)
	}
	for _, cancel := range canceled {
		cancel()
	}
}

// TryAcquire takes permits if they are available now. It waits only for the store, for
// [StoreOptions].Timeout at most. While somebody in this process waits, an oldest-first limiter
// rejects it even if the permits are available.
func (e *engine) TryAcquire(permits int) core.Lease {
	if err := e.check(permits); err != nil {
		return core.Fail(err)
	}
	t := &take{permits: permits}
	e.decide(t)
	switch {
	case t.outcome != unreachable:
		return e.leaseOf(t)
	case e.shared.Unavailable == UseLocal:
		return e.count(e.shared.Local.TryAcquire(permits))
	}
	return e.unrecorded(t)
}

// Acquire takes permits. If they are not available it waits for them, if the queue limit
// allows. If ctx is done, then or later, Acquire returns ctx.Err(), unchanged, at once; what
// the store grants afterwards is given back. A rate limiter rejects at once if the wait would
// outlast ctx's deadline.
func (e *engine) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	err := ctx.Err()
	if permits < 0 || err == nil {
		err = e.check(permits)
	}
	if err != nil {
		return core.Fail(err), err
	}
	t := &take{permits: permits, waits: true, leaves: ctx.Done()}
	t.deadline, _ = ctx.Deadline()
	if err := e.await(ctx, t); err != nil {
		return core.Fail(err), err
	}
	switch {
	case t.outcome != unreachable:
		l := e.leaseOf(t) //nolint:contextcheck // its release is no part of this
		return l, l.Err()
	case e.shared.Unavailable == UseLocal:
		l, err := hold.Acquire(ctx, &e.locals, e.shared.Local, permits)
		return e.count(l), err //nolint:contextcheck // a call of many does not end with one's ctx
	}
	l := e.unrecorded(t)
	return l, l.Err()
}

// statisticsEvery is how often Statistics asks the store at most.
const statisticsEvery = 100 * time.Millisecond

// Available asks the store how many permits could be taken now, within [StoreOptions].Timeout. While
// the store is unreachable it returns what was known last.
func (e *engine) Available() int {
	if e.shared.Store == nil {
		return 0
	}
	e.do(look())
	e.mu.Lock()
	defer e.unlock()
	return e.memory.available(e.limits, time.Now())
}

// Statistics returns the limiter's counts, which are those of this process, and what is
// available to all. It asks the store if the latest answer is older than 100 ms, and every 100
// ms at most; else, and while the store is unreachable, Available is what is known. It works
// after Close.
func (e *engine) Statistics() core.Statistics {
	if e.shared.Store == nil {
		return core.Statistics{}
	}
	e.perform(e.lookIfStaleLocked)
	e.mu.Lock()
	defer e.unlock()
	return e.statisticsLocked()
}

func (e *engine) lookIfStaleLocked() *operation {
	now := time.Now()
	if now.Sub(e.memory.at) < statisticsEvery || now.Sub(e.looked) < statisticsEvery {
		return nil
	}
	e.looked = now
	return look()
}

func (e *engine) statisticsLocked() core.Statistics {
	return core.Statistics{
		Limit: e.limits.limit, Available: e.memory.available(e.limits, time.Now()), Queued: e.queue.permits,
		Granted: e.granted, Rejected: e.rejected,
	}
}

// IdleFor returns how long this process has known all permits to be available, and whether it
// does. It never asks the store. A rate limiter is idle once what this process knows to be taken
// has come back, a concurrency limiter while this process holds no lease.
func (e *engine) IdleFor() (time.Duration, bool) {
	if e.shared.Store == nil {
		return 0, false
	}
	e.mu.Lock()
	defer e.unlock()
	now, from := time.Now(), e.memory.fullAt
	if !e.limits.rate() {
		from = e.keeper.since
	}
	if now.Before(from) || len(e.keeper.leases) > 0 || !e.queue.empty() || e.memory.prefetch.left(now) > 0 {
		return 0, false
	}
	return now.Sub(from), true
}

// Close ends every wait with [core.ErrClosed], gives back what was prefetched, and refuses from
// then on. Leases stay held, and are renewed, until they are released; the store stays open.
// Close returns nil, when what was prefetched is back or Timeout is over.
func (e *engine) Close() error {
	if e.shared.Store == nil {
		return nil
	}
	ends := e.close()
	defer e.end()
	e.locals.End(core.ErrClosed)
	timer := time.NewTimer(e.shared.Timeout)
	defer timer.Stop()
	for _, ended := range ends {
		if ended == nil {
			continue
		}
		select {
		case <-ended:
		case <-timer.C:
			return nil
		}
	}
	return nil
}

// close closes the limiter, and returns what is closed when its goroutines have ended.
func (e *engine) close() (ends []<-chan struct{}) {
	e.mu.Lock()
	defer e.unlock()
	now := time.Now()
	e.closed = true
	e.queue.refuseAllLocked(-1, func(*take) error { return core.ErrClosed })
	e.queue.asks = false
	e.memory.prefetch.closeLocked(now, e.breaker.rejects(now) == nil)
	e.queue.listener.stopLocked()
	e.keeper.closeLocked()
	if e.states != nil {
		ends = append(ends, e.breaker.ignore(e.states))
	}
	return append(ends, e.queue.listener.ended, e.pipeline.closeLocked())
}

// check returns what is wrong with a request whatever the limit says.
func (e *engine) check(permits int) error {
	switch {
	case permits < 0:
		return core.ErrNegativePermits
	case e.shared.Store == nil:
		return core.ErrClosed
	}
	return nil
}

// decide returns when t is decided.
func (e *engine) decide(t *take) {
	if e.begin(t, true) {
		e.pipeline.lead()
	}
	if t.done != nil {
		<-t.done
	}
}

// await is decide for a caller that leaves when ctx is done; then it returns ctx.Err().
func (e *engine) await(ctx context.Context, t *take) error {
	if t.leaves == nil {
		e.decide(t) //nolint:contextcheck // a call of many does not end with one's ctx
	} else {
		e.begin(t, false) //nolint:contextcheck // likewise
	}
	if t.done != nil {
		select {
		case <-t.done:
		case <-t.leaves:
			if e.leave(t) { //nolint:contextcheck // as above
				return ctx.Err()
			}
		}
	}
	err := ctx.Err()
	if err != nil && t.outcome == granted { // which came first is not known, so a done ctx wins
		e.mu.Lock()
		defer e.unlock() //nolint:contextcheck // as above
		e.returnLocked(t)
		return err
	}
	return nil
}

// begin decides t, or has the store asked. It reports whether the caller, if that can lead, has to make the call.
func (e *engine) begin(t *take, leads bool) bool {
	now := time.Now()
	t.due = now.Add(e.shared.Timeout)
	e.mu.Lock()
	defer e.unlock()
	if !e.admitLocked(t, now) {
		return false
	}
	switch {
	case e.memory.prefetch.spend(t.permits, now):
		e.granted++
		t.answer = answer{
			left: e.memory.available(e.limits, now), reset: e.memory.reset(now), stamp: e.memory.prefetch.stamp, window: e.memory.window,
		}
		e.decideLocked(t, granted)
	case e.memory.refuses(t.permits, now):
		e.missLocked(t, now)
	default:
		t.done = make(chan struct{})
		e.pipeline.takes = append(e.pipeline.takes, t)
	}
	return leads && e.pipeline.claimLocked()
}

// do has the store do an operation, and returns when it has ended, within Timeout.
func (e *engine) do(o *operation) { e.perform(func() *operation { return o }) }

// perform is do for the operation that f returns, which is called with the mutex held; nil: there is nothing to do.
func (e *engine) perform(f func() *operation) *operation {
	if e.shared.Store == nil {
		return nil
	}
	o, leads := e.beginOperation(f)
	if leads {
		e.pipeline.lead()
	}
	if o != nil && o.done != nil {
		<-o.done
	}
	return o
}

// beginOperation has the store asked, and reports whether the caller has to make the call.
func (e *engine) beginOperation(f func() *operation) (o *operation, leads bool) {
	now := time.Now()
	e.mu.Lock()
	defer e.unlock()
	if o = f(); o == nil {
		return nil, false
	}
	o.due = now.Add(e.shared.Timeout)
	e.addLocked(o, now)
	return o, e.pipeline.claimLocked()
}

// addLocked has the next call do an operation, if the store is asked at all.
func (e *engine) addLocked(o *operation, now time.Time) {
	if o.frees {
		e.memory.refused = refusal{}
	}
	if err := e.breaker.rejects(now); err != nil && !o.urgent {
		e.endLocked(o, now, answer{}, err)
		return
	}
	o.done = make(chan struct{})
	e.pipeline.ops = append(e.pipeline.ops, o)
}

// endLocked ends an operation with what the store said to the call that was sent then.
func (e *engine) endLocked(o *operation, sent time.Time, a answer, err error) {
	o.answer, o.err = a, err
	if o.then != nil {
		o.then(sent, a, err)
	}
	if o.done != nil {
		e.woken = append(e.woken, o.done)
	}
}

// apply puts new limits in force; apply is called with the mutex held.
func (e *engine) apply(l *limits, apply func()) (err error) {
	e.perform(func() *operation {
		if e.closed {
			err = core.ErrClosed
			return nil
		}
		o := look()
		if l.kind == kindBucket {
			o = rebind(e.limits)
		}
		apply()
		e.limits = l
		e.memory.forget()
		e.memory.window = 0
		e.queue.refuseAllLocked(l.limit, func(t *take) error {
			return &core.ExceedsLimitError{Limiter: l.name, Permits: t.permits, Limit: l.limit}
		})
		e.queue.asks = !e.queue.empty()
		return o
	})
	return err
}
