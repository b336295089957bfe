package redislimit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/internal/wait"
)

// Limiter is a limiter of package core that processes share; the package documentation says how. It is a [core.Limiter], [core.Reporter],
// [core.Idler], [core.QuietTrier], [core.Replenisher], [core.Reserver], [core.Resetter] and [io.Closer], and safe for concurrent use. Create it with
// [New]; the zero value fails with [core.ErrClosed].
//
// All processes together hold at most the PermitLimit of a concurrency limit. A lease holds its permits until it is released, and is
// renewed until then. If it cannot be renewed for [Options].TTL, it is lost, and others may take its permits. [Context] ends before
// that. Each lease has a [FencingToken].
//
// Inside, the limiter is one of three layers. While the store is unavailable, Unavailable decides. Otherwise the cache decides a request,
// or the client calls the store. An Acquire that the store refuses waits in the queue, which is core's. The keeper renews and releases
// concurrency leases.
type Limiter struct {
	waits

	options Options // with its defaults; its Store is nil in a zero value
	end     context.CancelFunc
	kind    kind
	channel string      // where releases are published; empty for a rate limiter
	locals  wait.Source // ends the waits in Options.Local at Close
	begin   time.Time   // the queue's instant 0

	granted, rejected atomic.Uint64 // grants count when their caller takes them, so that a canceled wait does not

	// mu guards the fields below, and the components. Only unlock releases it: a function takes and releases it, or its name
	// ends in Locked. It is held neither during a call of the store nor while a user's code runs. Of other locks only the
	// breaker's is taken under it. The layers share it because a reply and the queue change in one step: otherwise a newcomer could
	// overtake a waiter between them.
	mu     sync.Mutex
	limits *limits // the current ones
	closed bool
	cache  cache
	client client
	queue  machine.Machine[*request]
	waiters
	keeper keeper
	readAt time.Time       // when Statistics last called the store
	woken  []chan struct{} // to be sent to after the mutex is released
	ends   []func()        // to be called after the mutex is released

	spare    *request                // for requests to come
	returned atomic.Pointer[request] // the same, which need the mutex to become spare
	spares   atomic.Int32            // how many there are of both
}

// start makes the limiter ready for use. The options are valid, and have their defaults.
func (e *Limiter) start(o Options, l *limits) {
	e.options, e.kind, e.limits = o, l.kind, l
	ending, end := context.WithCancel(context.Background()) //nolint:forbidigo // Close ends it
	e.end = end
	limit := "{" + o.Key + "}:limit"
	e.client = client{
		host: e, store: o.Store, timeout: o.Timeout, breaker: breakersOf(o.Store).at(""), ending: ending,
		kind: l.kind, key: o.Key, keys: []string{limit}, holder: rand.Int64N(maxNumber), ready: func() bool { return false },
	}
	if r, ok := o.Store.(interface{ Ready() bool }); ok {
		e.client.ready = r.Ready
	}
	if n, ok := o.Store.(interface{ Node(key string) string }); ok {
		e.client.nodeOf = n.Node
	}
	switch second := "{" + o.Key + "}:"; {
	case l.kind == kindBucket:
		e.client.keys = append(e.client.keys, second+"tickets")
	case l.window():
		e.client.keys = append(e.client.keys, second+"segments")
	default:
		e.client.keys = append(e.client.keys, second+"leases")
		e.channel = limit + ":released"
	}
	e.begin = time.Now()
	e.cache = cache{limits: l, left: l.limit, fullAt: e.begin, forecast: forecast{limits: l}}
	e.keeper = keeper{e: e, since: e.begin}
	e.queue.Start(&machine.Remote{Ready: e.readyAtLocked, Served: e.servedAtLocked}, &l.queue, 0)
}

// instant returns a time as an instant of the queue.
func (e *Limiter) instant(t time.Time) int64 { return int64(t.Sub(e.begin)) }

// readyAtLocked is what the queue knows of the store.
func (e *Limiter) readyAtLocked(now int64, n int) int64 {
	c := e.cache
	c.forecast = c.unpromised()
	return e.knownAtLocked(&c, now, n)
}

// knownAtLocked is when a cache says that n permits are there, or now if that is not known.
func (e *Limiter) knownAtLocked(c *cache, now int64, n int) int64 {
	at, ok := c.readyAt(n, e.begin.Add(time.Duration(now)))
	if !ok {
		return now
	}
	return max(e.instant(at), now)
}

// servedAtLocked is readyAtLocked of a request behind waiters, who may have tickets.
func (e *Limiter) servedAtLocked(now int64, ahead, n int) int64 {
	n += min(ahead, math.MaxInt-n)
	if have := e.cache.tickets.permits(); have > 0 {
		if at, ok := e.cache.tickets.covers(n); ok {
			return max(e.instant(at), now)
		}
		n -= have
	}
	return e.knownAtLocked(&e.cache, now, n)
}

// lock implements host.
func (e *Limiter) lock() { e.mu.Lock() }

// unlock releases the mutex. Before that it ends the waits that the queue has ended, sets the timers, and starts a call of the store
// if there is something to ask. Afterwards it wakes the callers whose requests were decided, so that they do not block on the mutex.
func (e *Limiter) unlock() {
	e.redeemLocked()
	e.concludeLocked()
	e.balanceLocked()
	e.setTimerLocked()
	e.keeper.setTimerLocked()
	e.client.startLocked()
	woken, ends := e.woken, e.ends
	e.woken, e.ends = nil, nil
	e.mu.Unlock()
	for _, done := range woken {
		done <- struct{}{}
	}
	for _, end := range ends {
		end()
	}
}

// TryAcquire takes permits if they are available now. It waits only for the store, at most for [Options].Timeout. An oldest-first or
// fair-share limiter rejects it while a caller in this process waits, and a bucket or window while one in any process does.
func (e *Limiter) TryAcquire(permits int) core.Lease {
	l, _ := e.acquire(context.Background(), permits, demand{}) //nolint:forbidigo // it does not give up
	return l
}

// TryQuietly is like TryAcquire, but a rejection is not counted.
func (e *Limiter) TryQuietly(permits int) (core.Lease, bool) {
	l, _ := e.acquire(context.Background(), permits, demand{quiet: true}) //nolint:forbidigo // as above
	return l, l.Acquired()
}

// Acquire takes permits. If they are not available, it waits for them, if the queue limit allows. The waiters of all processes for a
// bucket or window are served in the order in which they came, with one call of the store each, unless the order is [core.NewestFirst].
// If a process dies, the permits that its callers waited for come back as if they had been granted. If ctx is
// done, now or later, Acquire returns ctx.Err() immediately; permits that the store grants afterwards are returned. A rate limiter rejects
// immediately if the wait would outlast ctx's deadline.
func (e *Limiter) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return e.acquireIn(ctx, permits, false)
}

// waits makes a limiter wait beyond QueueLimit for this module's primitives, by its acquireWaiting.
type waits = backdoor.Waits[core.Lease]

// acquireWaiting is Acquire for this module's primitives, which wait whatever the queue limit is.
func (e *Limiter) acquireWaiting(ctx context.Context, permits int) (core.Lease, error) {
	return e.acquireIn(ctx, permits, true)
}

func (e *Limiter) acquireIn(ctx context.Context, permits int, beyond bool) (core.Lease, error) {
	d := demand{waits: true, beyond: beyond}
	d.deadline, _ = ctx.Deadline()
	if f, ok := core.FlowFromContext(ctx); ok {
		d.flow = fair.Flow(f)
	}
	return e.acquire(ctx, permits, d)
}

func (e *Limiter) acquire(ctx context.Context, permits int, d demand) (core.Lease, error) {
	err := ctx.Err()
	switch {
	case permits < 0:
		err = core.ErrNegativePermits
	case err == nil && e.options.Store == nil:
		err = core.ErrClosed
	}
	if err != nil {
		return core.Fail(err), err
	}
	req, err := e.await(ctx, permits, d)
	switch {
	case err != nil:
		return core.Fail(err), err
	case req.stage == unreachable:
		return e.unavailable(ctx, req)
	}
	l := e.leaseOf(req)
	if req.grant == nil { // no queue has the request
		e.recycle(req)
	}
	return l, l.Err()
}

// unavailable decides a request while the store is unavailable, as Unavailable says.
func (e *Limiter) unavailable(ctx context.Context, req *request) (core.Lease, error) {
	switch e.options.Unavailable {
	case FailClosed:
		if !req.quiet {
			e.rejected.Add(1)
		}
		l := core.Fail(req.err).With(req.limits.appendMetadata(nil, req.limits.windowOf(0))...)
		return l, l.Err()
	case FailOpen:
		e.granted.Add(1)
		return core.GrantFrom(&grant{e: e, current: req.limits}, req.permits, req.limits.appendMetadata(nil, req.limits.windowOf(0))...), nil
	}
	var l core.Lease
	var err error
	switch {
	case req.waits:
		l, err = hold.Acquire(ctx, &e.locals, e.options.Local, req.permits, false)
	case req.reserves:
		l = reserveIn(e.options.Local, req.permits)
		err = l.Err()
	case req.quiet:
		l, _ = core.TryQuietly(e.options.Local, req.permits)
		err = l.Err()
	default:
		l = e.options.Local.TryAcquire(req.permits)
		err = l.Err()
	}
	if l.Acquired() {
		e.granted.Add(1)
	} else if errors.Is(l.Err(), core.ErrRejected) && !req.quiet {
		e.rejected.Add(1)
	}
	return l, err
}

// await returns a request that is decided. If ctx is done first, it returns ctx.Err().
func (e *Limiter) await(ctx context.Context, permits int, d demand) (*request, error) {
	req, leads := e.submit(permits, d)
	canceled := ctx.Done()
	switch {
	case leads && canceled == nil:
		e.client.lead()
	case leads:
		go e.client.run()
	}
	switch {
	case !req.awaited:
	case canceled == nil:
		<-req.done
	default:
		select {
		case <-req.done:
		case <-canceled:
			undecided, waited := e.abandon(req)
			if waited {
				wait.Waits(ctx)
			}
			if undecided {
				return nil, ctx.Err()
			}
			<-req.done
		}
	}
	err := ctx.Err()
	if err != nil && req.stage == granted { // the order of the two is not known, so the context wins
		e.mu.Lock()
		defer e.unlock()
		e.returnLocked(given{req.permits, req.result, req.lease})
		return nil, err
	}
	return req, nil
}

// submit decides a request, or has the next call ask for it. It reports whether the caller has to make that call.
func (e *Limiter) submit(permits int, d demand) (req *request, leads bool) {
	now := time.Now()
	e.mu.Lock()
	defer e.unlock()
	e.redeemLocked()
	req = e.requestLocked()
	req.permits, req.demand, req.expires = permits, d, now.Add(e.options.Timeout)
	if e.admitLocked(req, now) {
		switch v, r := e.cache.decide(permits, now); {
		case v == here:
			req.result = r
			e.decideLocked(req, granted)
		case v == refused && !req.reserves:
			e.missLocked(req, now)
		default:
			e.client.addLocked(&req.operation)
		}
		leads = e.client.claimLocked()
	}
	req.awaited = !req.stage.decided()
	return req, leads
}

// requestLocked returns a new request, or one that has ended. Like its timers, a limiter's channels belong to one synctest bubble.
func (e *Limiter) requestLocked() *request {
	if e.spare == nil {
		e.spare = e.returned.Swap(nil)
	}
	r := e.spare
	if r == nil {
		r = &request{e: e, done: make(chan struct{}, 1)}
	} else {
		e.spare = r.next
		e.spares.Add(-1)
		*r = request{e: e, done: r.done}
	}
	r.asker = r
	return r
}

// recycle keeps a request that nobody refers to any more for another one. It needs no mutex: a stack of which only the whole is taken
// has no ABA problem.
func (e *Limiter) recycle(r *request) {
	if e.spares.Add(1) > maxSpare {
		e.spares.Add(-1)
		return
	}
	for {
		r.next = e.returned.Load()
		if e.returned.CompareAndSwap(r.next, r) {
			return
		}
	}
}

// statisticsEvery is how often Statistics calls the store at most.
const statisticsEvery = 100 * time.Millisecond

// Available asks the store how many permits could be taken now. It takes at most [Options].Timeout. While the store is
// unavailable, it returns the last known number. While callers wait or permits are reserved, in any process, Available of a bucket or
// window is 0, because the permits that are there belong to them.
func (e *Limiter) Available() int {
	if e.options.Store == nil {
		return 0
	}
	e.do(readOp())
	e.mu.Lock()
	defer e.unlock()
	return e.cache.available(time.Now())
}

// Statistics returns the counts of this process, and how many permits are available to all processes. It calls the store if
// the latest reply is older than 100 ms, and at most every 100 ms. Otherwise, and while the store is unreachable, Available is
// the number that is known. It may be called after Close.
func (e *Limiter) Statistics() core.Statistics {
	if e.options.Store == nil {
		return core.Statistics{}
	}
	e.perform(e.readIfStaleLocked)
	e.mu.Lock()
	defer e.unlock()
	return e.statisticsLocked()
}

func (e *Limiter) readIfStaleLocked() *task {
	now := time.Now()
	if now.Sub(e.cache.at) < statisticsEvery || now.Sub(e.readAt) < statisticsEvery {
		return nil
	}
	e.readAt = now
	return e.task(readOp())
}

func (e *Limiter) statisticsLocked() core.Statistics {
	e.redeemLocked()
	return core.Statistics{
		Limit: e.limits.limit, Available: e.cache.available(time.Now()), Queued: e.queue.Queued(),
		Granted: e.granted.Load(), Rejected: e.rejected.Load(),
	}
}

// IdleFor returns whether this process knows all permits to be available, and for how long. It never calls the store. A rate
// limiter is idle once the permits that this process knows to be taken have been returned, a concurrency limiter while this
// process holds no lease.
func (e *Limiter) IdleFor() (time.Duration, bool) {
	if e.options.Store == nil {
		return 0, false
	}
	e.mu.Lock()
	defer e.unlock()
	now, from := time.Now(), e.cache.fullAt
	if !e.limits.rate() {
		from = e.keeper.since
	}
	if now.Before(from) || len(e.keeper.leases) > 0 || !e.queue.Empty() || e.cache.prefetch.left(now) > 0 {
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

// closeLocked closes the limiter, and returns the task that ends after the calls in flight, and after the prefetched permits
// are returned; nil if there is nothing to wait for.
func (e *Limiter) closeLocked() *task {
	e.redeemLocked()
	e.closed = true
	e.queue.Close(0)
	e.renewLocked()
	e.asks = false
	e.listener.stopLocked()
	if e.client.calling == 0 && len(e.client.pending) == 0 && len(e.cache.tickets.back) == 0 && e.cache.prefetch.left(time.Now()) == 0 {
		return nil
	}
	return e.task(readOp())
}

// listenerEnds returns a channel that is closed when the listener of a closed limiter has ended; nil if there was none.
func (e *Limiter) listenerEnds() <-chan struct{} {
	e.mu.Lock()
	defer e.unlock()
	return e.listener.ended
}

// apply makes other limits current.
func (e *Limiter) apply(l *limits) (err error) {
	e.perform(func() *task {
		if e.closed {
			err = core.ErrClosed
			return nil
		}
		e.redeemLocked()
		e.limits = l
		e.cache.update(l)
		e.queue.Update(e.instant(time.Now()), &l.queue)
		e.renewLocked()
		return e.task(readOp())
	})
	return err
}
