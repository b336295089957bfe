package redislimit

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// Limiter is a limiter of package core that processes share; the package documentation says how. It is a [core.Limiter],
// [core.Reporter], [core.Idler], [core.Replenisher], [core.Resetter] and [io.Closer], and safe for concurrent use. Make it with [New]; the
// zero value fails with [core.ErrClosed].
//
// All processes together hold at most the PermitLimit of a concurrency limit. A lease holds its permits until it is released, and is
// renewed until then. If it cannot be renewed for [Options].TTL, it is lost, and others may take its permits. [Context] ends before
// that. Each lease has a [FencingToken].
//
// Inside, a request is decided from memory (memory.go), or the pipeline asks the store. An Acquire that the store refuses waits in the
// queue. The keeper renews and releases concurrency leases.
type Limiter struct {
	options Options // with its defaults; its Store is nil in a zero value
	breaker *breaker
	ready   func() bool     // reports whether the store returns by its context's deadline
	ending  context.Context // canceled by Close, which ends late calls
	end     context.CancelFunc
	kind    kind
	keys    []string
	channel string      // where releases are published; empty for a rate limiter
	locals  wait.Source // ends the waits in Options.Local at Close

	granted, rejected atomic.Uint64 // grants count when their caller takes them, so that a canceled wait does not

	// mu guards the fields below, and the components. Only unlock releases it: a function takes and releases it, or its name
	// ends in Locked. It is held neither during a call of the store nor while a user's code runs. Of other locks only the
	// breaker's is taken under it.
	mu       sync.Mutex
	limits   *limits // the current ones
	closed   bool
	memory   memory
	pipeline pipeline
	queue    queue
	keeper   keeper
	readAt   time.Time       // when Statistics last asked the store
	woken    []chan struct{} // to be closed after the mutex is released
	ended    []func()        // to be called after the mutex is released
}

// start makes the engine ready for use. The shared options are valid, and have their defaults.
func (e *Limiter) start(s Options, l *limits) {
	e.options, e.kind, e.limits, e.breaker = s, l.kind, l, breakerOf(s.Store)
	e.ending, e.end = context.WithCancel(context.Background()) //nolint:forbidigo // Close ends it
	e.ready = func() bool { return false }
	if r, ok := s.Store.(interface{ Ready() bool }); ok {
		e.ready = r.Ready
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
	e.keeper = keeper{e: e, since: now, holder: rand.Int64N(maxNumber)}
}

// unlock releases the mutex. Before that it sets the timers, and starts a call of the store if there is something to ask.
// Afterwards it wakes the callers whose requests were decided, so that they do not block on the mutex.
func (e *Limiter) unlock() {
	e.queue.setTimerLocked()
	e.keeper.setTimerLocked()
	e.pipeline.startLocked()
	woken, ended := e.woken, e.ended
	e.woken, e.ended = nil, nil
	e.mu.Unlock()
	for _, done := range woken {
		close(done)
	}
	for _, end := range ended {
		end()
	}
}

// TryAcquire takes permits if they are available now. It waits only for the store, at most for [Options].Timeout. While a
// caller in this process waits, an oldest-first limiter rejects it even if the permits are available.
func (e *Limiter) TryAcquire(permits int) core.Lease {
	if err := e.check(permits); err != nil {
		return core.Fail(err)
	}
	req := &request{permits: permits}
	_ = e.await(context.Background(), req) //nolint:forbidigo // a TryAcquire does not give up
	switch {
	case req.stage != unreachable:
		return e.leaseOf(req)
	case e.options.Unavailable == UseLocal:
		return e.count(e.options.Local.TryAcquire(permits))
	}
	return e.unrecorded(req)
}

// Acquire takes permits. If they are not available, it waits for them, if the queue limit allows. If ctx is done, now or
// later, Acquire returns ctx.Err() immediately; permits that the store grants afterwards are returned. A rate limiter rejects
// immediately if the wait would outlast ctx's deadline.
func (e *Limiter) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	err := ctx.Err()
	if permits < 0 || err == nil {
		err = e.check(permits)
	}
	if err != nil {
		return core.Fail(err), err
	}
	req := &request{permits: permits, waits: true}
	req.deadline, _ = ctx.Deadline()
	if err := e.await(ctx, req); err != nil {
		return core.Fail(err), err
	}
	switch {
	case req.stage != unreachable:
		l := e.leaseOf(req) //nolint:contextcheck // its release is no part of this
		return l, l.Err()
	case e.options.Unavailable == UseLocal:
		l, err := hold.Acquire(ctx, &e.locals, e.options.Local, permits)
		return e.count(l), err
	}
	l := e.unrecorded(req)
	return l, l.Err()
}

// statisticsEvery is how often Statistics asks the store at most.
const statisticsEvery = 100 * time.Millisecond

// Available asks the store how many permits could be taken now. It takes at most [Options].Timeout. While the store is
// unreachable, it returns the number that was known last.
func (e *Limiter) Available() int {
	if e.options.Store == nil {
		return 0
	}
	e.do(readOp())
	e.mu.Lock()
	defer e.unlock()
	return e.memory.available(e.limits, time.Now())
}

// Statistics returns the counts of this process, and how many permits are available to all processes. It asks the store if the
// latest reply is older than 100 ms, and at most every 100 ms. Otherwise, and while the store is unreachable, Available is the
// number that is known. Statistics works after Close.
func (e *Limiter) Statistics() core.Statistics {
	if e.options.Store == nil {
		return core.Statistics{}
	}
	e.perform(e.readIfStaleLocked)
	e.mu.Lock()
	defer e.unlock()
	return e.statisticsLocked()
}

func (e *Limiter) readIfStaleLocked() *operation {
	now := time.Now()
	if now.Sub(e.memory.at) < statisticsEvery || now.Sub(e.readAt) < statisticsEvery {
		return nil
	}
	e.readAt = now
	return readOp()
}

func (e *Limiter) statisticsLocked() core.Statistics {
	return core.Statistics{
		Limit: e.limits.limit, Available: e.memory.available(e.limits, time.Now()), Queued: e.queue.permits,
		Granted: e.granted.Load(), Rejected: e.rejected.Load(),
	}
}

// IdleFor returns whether this process knows all permits to be available, and for how long. It never asks the store. A rate
// limiter is idle once the permits that this process knows to be taken have come back, a concurrency limiter while this process
// holds no lease.
func (e *Limiter) IdleFor() (time.Duration, bool) {
	if e.options.Store == nil {
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

// Close ends every wait with [core.ErrClosed], returns prefetched permits to the store, and fails all later requests. Leases
// stay held, and are renewed, until they are released. The store stays open. Close returns nil once the prefetched permits are
// returned or Timeout is over.
func (e *Limiter) Close() error {
	if e.options.Store == nil {
		return nil
	}
	timer := time.NewTimer(e.options.Timeout)
	defer timer.Stop()
	defer e.end()
	for range 2 { // the first ends after the calls in flight, the second after what they have prefetched is returned
		e.perform(e.closeLocked)
	}
	e.locals.End(core.ErrClosed)
	if ended := e.listenerEnds(); ended != nil {
		select {
		case <-ended:
		case <-timer.C:
		}
	}
	return nil
}

// closeLocked closes the limiter, and returns the operation that ends after the call in flight, and after the prefetched permits
// are returned; nil if there is nothing to wait for.
func (e *Limiter) closeLocked() *operation {
	e.closed = true
	e.queue.failAllLocked(-1, func(*request) error { return core.ErrClosed })
	e.queue.asks = false
	e.queue.listener.stopLocked()
	if e.pipeline.calling == 0 && e.memory.prefetch.left(time.Now()) == 0 {
		return nil
	}
	return readOp()
}

// listenerEnds returns a channel that is closed when the listener of a closed limiter has ended; nil if there was none.
func (e *Limiter) listenerEnds() <-chan struct{} {
	e.mu.Lock()
	defer e.unlock()
	return e.queue.listener.ended
}

// check returns the error of a request that fails whatever the limit is.
func (e *Limiter) check(permits int) error {
	switch {
	case permits < 0:
		return core.ErrNegativePermits
	case e.options.Store == nil:
		return core.ErrClosed
	}
	return nil
}

// await returns when the request is decided, or ctx is done; then it returns ctx.Err().
func (e *Limiter) await(ctx context.Context, req *request) error {
	leads := e.submit(req) //nolint:contextcheck // a call for many requests does not end with the ctx of one
	// A core.Switch gives the next request its turn when Done is called, so the pipeline must have this one before.
	canceled := ctx.Done()
	switch {
	case leads && canceled == nil:
		e.pipeline.lead() //nolint:contextcheck // as above
	case leads:
		go e.pipeline.run() //nolint:contextcheck // as above
	}
	if req.done != nil {
		select {
		case <-req.done:
		case <-canceled:
			if e.abandon(req) { //nolint:contextcheck // as above
				return ctx.Err()
			}
		}
	}
	err := ctx.Err()
	if err != nil && req.stage == granted { // the order of the two is not known, so the context wins
		e.mu.Lock()
		defer e.unlock() //nolint:contextcheck // as above
		e.returnLocked(req)
		return err
	}
	return nil
}

// submit decides the request, or has the next call ask for it. It reports whether the caller has to make that call.
func (e *Limiter) submit(req *request) (leads bool) {
	now := time.Now()
	req.expires = now.Add(e.options.Timeout)
	e.mu.Lock()
	defer e.unlock()
	if e.admitLocked(req, now) {
		m := &e.memory
		switch {
		case m.prefetch.spend(req.permits, now):
			req.result = result{left: m.available(e.limits, now), reset: m.reset(now), stamp: m.prefetch.spentStamp(), window: m.window}
			e.decideLocked(req, granted)
		case m.refuses(req.permits, now):
			e.missLocked(req, now)
		default:
			e.pipeline.requests = append(e.pipeline.requests, req)
		}
		leads = e.pipeline.claimLocked()
	}
	if !req.stage.decided() {
		req.done = make(chan struct{})
	}
	return leads
}

// do has the store perform an operation, and returns when it has ended, within Timeout.
func (e *Limiter) do(o *operation) { e.perform(func() *operation { return o }) }

// perform is do for the operation that f returns; nil means that there is nothing to do. f is called with the mutex held.
func (e *Limiter) perform(f func() *operation) *operation {
	if e.options.Store == nil {
		return nil
	}
	o, leads := e.submitOperation(f)
	if leads {
		e.pipeline.lead()
	}
	if o != nil && o.done != nil {
		<-o.done
	}
	return o
}

// submitOperation has the next call perform an operation, and reports whether the caller has to make that call.
func (e *Limiter) submitOperation(f func() *operation) (o *operation, leads bool) {
	now := time.Now()
	e.mu.Lock()
	defer e.unlock()
	if o = f(); o == nil {
		return nil, false
	}
	o.expires = now.Add(e.options.Timeout)
	e.addLocked(o, now)
	return o, e.pipeline.claimLocked()
}

// addLocked has the next call perform an operation, unless the breaker is open.
func (e *Limiter) addLocked(o *operation, now time.Time) {
	if o.frees {
		e.memory.refusal = refusal{}
	}
	if err := e.breaker.rejects(now); err != nil && !o.urgent {
		e.finishLocked(o, now, result{}, err)
		return
	}
	o.done = make(chan struct{})
	e.pipeline.ops = append(e.pipeline.ops, o)
}

// finishLocked ends an operation with the result of its call. sent is when the call was sent.
func (e *Limiter) finishLocked(o *operation, sent time.Time, r result, err error) {
	o.result, o.err = r, err
	if o.then != nil {
		o.then(sent, r, err)
	}
	if o.done != nil {
		e.woken = append(e.woken, o.done)
	}
}

// apply makes other limits current.
func (e *Limiter) apply(l *limits) (err error) {
	e.perform(func() *operation {
		if e.closed {
			err = core.ErrClosed
			return nil
		}
		if !l.sameRate(e.limits) {
			e.memory.prefetch.permits = 0 // when they come back is counted differently now
		}
		e.limits = l
		e.memory.forget()
		e.memory.window = 0
		e.queue.failAllLocked(l.limit, func(req *request) error {
			return &core.ExceedsLimitError{Limiter: l.name, Permits: req.permits, Limit: l.limit}
		})
		e.queue.asks = !e.queue.empty()
		return readOp()
	})
	return err
}
