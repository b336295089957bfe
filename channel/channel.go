package channel

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/ring"
	"github.com/sluice-go/sluice/internal/wait"
)

// LimitedChannel is a queue between goroutines, like a Go channel, in which each item holds a lease of a
// limiter. Only senders are limited: the lease is released when the item is received (except by ReceiveLease),
// discarded or dropped. Create one with [New] or [Bounded]; the zero
// value is closed and empty. Most callers want Send and Receive.
//
// With a [core.ConcurrencyLimiter] it is a bounded channel: when the channel is full, Send waits, even if
// the limiter's QueueLimit is 0. An item that costs more permits than the limit fails immediately with
// [core.ErrPermitsExceedLimit], and an item that costs fewer than 0 with [core.ErrNegativePermits];
// neither drops another item.
//
// Items of one sender are received in the order in which they were sent. A Send that returns an error has
// sent nothing and holds nothing; a Receive that returns an error has taken nothing. A call whose ctx is
// already done returns ctx.Err(), even if it would not have to wait. If ctx ends while a call waits, the call
// returns ctx.Err(), unless it was given an item or room first; permits that it was given are refunded. After
// Close, sends return [ErrClosed], and receives return the remaining items.
//
// All methods are safe for concurrent use. The send of an item happens before its receive. Only Chan starts a
// goroutine; if a context is not one of package context, that package may start another one. With a limiter
// of package core, a send or a receive that does not wait allocates nothing, except ReceiveLease on a Bounded
// channel, which allocates the lease.
type LimitedChannel[T any] struct {
	limiter  hold.Limiter // none if bounded
	costs    func(T) int  // nil: 1 each
	onDrop   func(T)      // nil: nothing is called
	capacity int          // items at most; math.MaxInt: no bound
	overflow Overflow
	plain    bool        // items hold plain permits or nothing; else leases
	closing  wait.Source // ends the waits in the limiter's queue on Close

	// mu guards the fields below. While it is held nothing blocks and no user code runs. The only lock
	// taken under it is that of a core.ConcurrencyLimiter, which never calls back: plain permits of items
	// are taken under it where nothing has to wait, and always returned under it. Each permit is
	// therefore available, held by a queued item, or held outside of the channel; a drop mode that finds
	// too few available and no item to drop rightly rejects.
	//
	// Two invariants: a sender waits for room only while there is none; a receiver waits only while no
	// item is available.
	mu       wait.Mutex
	items    ring.Ring[T] // that any receiver can take, oldest first
	holds    hold.Ledger  // what they hold
	returned []offer[T]   // items that Chans have returned, oldest first; all are older than items
	offered  int          // items that Chans offer; they are neither in items nor in returned
	offers   uint64       // offers started so far
	heldRoom int          // Bounded only: room held by offered items and by the leases of received items

	reporting int // calls that run OnDrop
	late      []T // items dropped by calls from OnDrop, to be reported by a call that runs it

	senders   wait.List[handoff[T]] // wait for room
	receivers wait.List[handoff[T]] // wait for an item

	open atomic.Bool   // set under mu; read without it to return ErrClosed early
	err  error         // the error given to CloseWithError
	done chan struct{} // nil until Done is called, so that it belongs to the synctest bubble that uses the channel
}

// handoff is what a waiting call has or is given: the item that a sender wants to queue, or the item that a
// receiver takes.
type handoff[T any] struct {
	moves bool // false: the call is a WaitToSend, WaitToReceive or Chan, which moves no item
	keeps bool // a receiver that keeps the lease
	item  T
	hold  hold.Hold // what the item holds
}

// New returns an open channel, or an error that reports every invalid option.
func New[T any](o Options[T]) (*LimitedChannel[T], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &LimitedChannel[T]{
		limiter: hold.Of(o.Limiter), costs: o.Cost, onDrop: o.OnDrop, capacity: o.Capacity, overflow: o.Overflow,
	}
	if c.capacity == 0 {
		c.capacity = math.MaxInt
	}
	c.plain = c.limiter.Plain(1)
	if c.plain && o.Cost == nil {
		c.holds = hold.Fixed(1)
	}
	c.open.Store(true)
	return c, nil
}

// Bounded returns a channel that holds up to capacity items, like make(chan T, capacity). It returns an
// error if capacity < 1. The channel behaves like one with a concurrency limiter of capacity permits and
// an unbounded queue: TrySend is rejected while the channel is full, and Send waits until there is room.
func Bounded[T any](capacity int) (*LimitedChannel[T], error) {
	if capacity < 1 {
		return nil, fmt.Errorf("channel: Bounded capacity = %d, want at least 1", capacity)
	}
	c := &LimitedChannel[T]{capacity: capacity, plain: true, holds: hold.Fixed(0)}
	c.open.Store(true)
	return c, nil
}

// bounded reports whether c was made by Bounded: it has no limiter, capacity alone limits the senders, and
// items hold nothing.
func (c *LimitedChannel[T]) bounded() bool { return c.limiter.Limiter == nil }

// String returns a description for diagnostics: how many items are queued, and whether c is closed.
func (c *LimitedChannel[T]) String() string {
	c.mu.Lock()
	n, closed := c.lenLocked(), !c.open.Load()
	c.mu.Unlock()
	s := strconv.Itoa(n) + " queued"
	if c.capacity > 0 && c.capacity < math.MaxInt { // 0 in the zero value
		s = fmt.Sprintf("%d of %d queued", n, c.capacity)
	}
	if closed {
		s += ", closed"
	}
	return "limited channel: " + s
}

// Len returns the number of queued items, including items that a Chan offers. Items of waiting senders do
// not count.
func (c *LimitedChannel[T]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lenLocked()
}

func (c *LimitedChannel[T]) lenLocked() int { return c.thereLocked() + c.offered }

// thereLocked returns the number of items that any receiver can take.
func (c *LimitedChannel[T]) thereLocked() int { return len(c.returned) + c.items.Len() }

func (c *LimitedChannel[T]) roomLocked() bool { return c.thereLocked()+c.heldRoom < c.capacity }

// deferredWork is what a call still has to do when it has released the mutex.
type deferredWork[T any] struct {
	woken    wait.Woken[handoff[T]] // calls to wake
	released few[core.Lease]        // of items that have left the channel
	dropped  few[T]                 // items to report to OnDrop
}

// few is a list that takes no memory of its own for one element.
type few[E any] struct {
	n     int
	first E
	rest  []E
}

func (f *few[E]) add(e E) {
	if f.n == 0 {
		f.first = e
	} else {
		f.rest = append(f.rest, e)
	}
	f.n++
}

// finish does the deferred work, without the mutex.
func (c *LimitedChannel[T]) finish(d *deferredWork[T]) {
	d.woken.Wake()
	if d.released.n > 0 {
		d.released.first.Release()
		core.ReleaseAll(d.released.rest)
	}
	if d.dropped.n > 0 {
		c.drop(d.dropped.first, d.dropped.rest...)
	}
}

// putLocked gives v to a waiting receiver, or queues it; there must be room.
func (c *LimitedChannel[T]) putLocked(v T, h hold.Hold, d *deferredWork[T]) {
	if !c.handLocked(v, h, d) {
		c.items.Push(v)
		c.holds.Push(1, h)
	}
}

// handLocked gives v to the receiver that has waited longest; false if none waits. Calls before it that wait
// without taking an item are woken.
func (c *LimitedChannel[T]) handLocked(v T, h hold.Hold, d *deferredWork[T]) bool {
	for w := c.receivers.Decide(wait.Granted); w != nil; w = c.receivers.Decide(wait.Granted) {
		d.woken.Add(w)
		if !w.Value.moves {
			continue
		}
		w.Value.item = v
		if w.Value.keeps {
			w.Value.hold = h
			c.holdRoomLocked()
		} else {
			c.releaseLocked(h, d)
		}
		return true
	}
	return false
}

// releaseLocked returns what an item held: plain permits immediately, and a lease, whose release may be user
// code, in finish.
func (c *LimitedChannel[T]) releaseLocked(h hold.Hold, d *deferredWork[T]) {
	if h.Permits > 0 {
		c.limiter.GivePlain(h.Permits)
	} else if h.Lease.Acquired() {
		d.released.add(h.Lease)
	}
}

// holdRoomLocked counts, in a Bounded channel, room that an offered item or the lease of a received item
// holds.
func (c *LimitedChannel[T]) holdRoomLocked() {
	if c.bounded() {
		c.heldRoom++
	}
}

func (c *LimitedChannel[T]) returnRoomLocked() {
	if c.bounded() {
		c.heldRoom--
	}
}

// leftLocked is called when items have left or room was returned. It queues the items of senders that
// wait for room, and ends a closed channel that has become empty.
func (c *LimitedChannel[T]) leftLocked(d *deferredWork[T]) {
	for !c.senders.Empty() && c.roomLocked() {
		w := c.senders.Decide(wait.Granted)
		if w == nil {
			break
		}
		if w.Value.moves {
			c.putLocked(w.Value.item, w.Value.hold, d)
		}
		d.woken.Add(w)
	}
	if !c.open.Load() {
		c.endLocked(d)
	}
}

// cost returns the permits that v costs.
func (c *LimitedChannel[T]) cost(v T) int {
	if c.costs == nil {
		return 1
	}
	return c.costs(v)
}
