package channel

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// LimitedChannel is a queue between goroutines, like a Go channel, in which each item holds a lease of a
// limiter. Only senders are limited: the lease is released when the item is received, discarded or
// dropped, or at once if a waiting receiver takes the item. Create one with [New] or [Bounded]; the zero
// value is closed and empty. Most callers want Send and Receive.
//
// With a [core.ConcurrencyLimiter] it is a bounded channel: when the channel is full, Send waits in the
// limiter's queue. If the limiter has no queue, or its queue is full, the item is rejected with the
// limiter's *[core.RejectedError]. An item that costs more permits than the limit fails at once with
// [core.ErrPermitsExceedLimit], and an item that costs fewer than 0 with [core.ErrNegativePermits];
// neither drops another item.
//
// Items of one sender are received in the order in which they were sent. A Send that returns an error has
// sent nothing and holds nothing; a Receive that returns an error has taken nothing. A call whose ctx is
// already done returns ctx.Err(), even if it would not have to wait. While a call waits, whichever comes
// first decides: being given an item, room or permits, or the end of ctx. After Close, sends return
// [ErrClosed], and receives return the remaining items.
//
// All methods are safe for concurrent use. The send of an item happens before its receive. Only Chan starts
// a goroutine. With a limiter of package core, a send or a receive that does not wait allocates nothing,
// except ReceiveLease on a Bounded channel, which allocates the lease.
type LimitedChannel[T any] struct {
	limiter  hold.Limiter // none if bounded
	permits  func(T) int  // nil: 1 each
	onDrop   func(T)      // nil: nothing is called
	capacity int          // items at most; math.MaxInt: no bound
	overflow Overflow
	plain    bool        // items hold plain permits or nothing; else leases
	closing  wait.Source // ends the waits in the limiter's queue on Close

	// mu guards the fields below. While it is held nothing blocks and no user code runs. The only lock
	// taken under it is that of a core.ConcurrencyLimiter, which never calls back: plain permits of items
	// are taken under it where nothing has to wait, and always given back under it. Each permit is
	// therefore available, held by a queued item, or held outside of the channel; a drop mode that finds
	// too few available and no item to drop rightly rejects.
	//
	// Two invariants: a sender waits for room only while there is none; a receiver waits only while no
	// item is available.
	mu       wait.Mutex
	queue    queue[T]
	returned []offer[T] // items that Chans have returned, oldest first; all are older than those in queue
	offered  int        // items that Chans offer; they are neither in queue nor in returned
	offers   uint64     // offers begun so far
	borrowed int        // Bounded only: room held by offered items and by the leases of received items

	senders     line[T] // wait for room, with their items
	receivers   line[T] // wait for an item
	roomWaiters line[T] // WaitToSend calls: wait until there is room, and take none
	itemWaiters line[T] // WaitToReceive calls and Chans: wait until there is an item, and take none

	open atomic.Bool // set under mu; read without it to return ErrClosed early
	err  error       // the error given to CloseWithError
	done chan struct{}
	over bool // done is closed
}

// line is a queue of waiting calls.
type line[T any] = wait.List[parcel[T]]

// parcel is what a call waits with, or is given.
type parcel[T any] struct {
	item  T
	hold  hold.Hold // what the item holds
	keeps bool      // a receiver that keeps the lease
}

// New returns an open channel, or an error that reports every invalid option.
//
// A limiter without a queue (QueueLimit 0) makes no sender wait: while its permits are taken, Send rejects
// the item as TrySend does, or drops one in a drop mode. Give the limiter a QueueLimit, in permits, if Send
// is to wait for it; math.MaxInt means as long as it takes.
func New[T any](o Options[T]) (*LimitedChannel[T], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &LimitedChannel[T]{
		limiter: hold.Of(o.Limiter), permits: o.Permits, onDrop: o.OnDrop, capacity: o.Capacity, overflow: o.Overflow,
	}
	if c.capacity == 0 {
		c.capacity = math.MaxInt
	}
	c.plain = c.limiter.Plain(1)
	if c.plain && o.Permits == nil {
		c.queue.each = 1
	} else {
		c.queue.varies = true
	}
	c.start()
	return c, nil
}

// Bounded returns a channel that holds up to capacity items, like make(chan T, capacity). It returns an
// error if capacity < 1. The channel behaves like one with a concurrency limiter of capacity permits and
// an unbounded queue: TrySend is rejected while the channel is full, and Send waits until there is room.
func Bounded[T any](capacity int) (*LimitedChannel[T], error) {
	if capacity < 1 {
		return nil, fmt.Errorf("channel: Bounded capacity = %d, want at least 1", capacity)
	}
	c := &LimitedChannel[T]{capacity: capacity, plain: true}
	c.start()
	return c, nil
}

func (c *LimitedChannel[T]) start() {
	c.done = make(chan struct{})
	c.open.Store(true)
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
	if c.capacity < math.MaxInt && c.done != nil {
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
func (c *LimitedChannel[T]) thereLocked() int { return len(c.returned) + c.queue.items.Len() }

func (c *LimitedChannel[T]) roomLocked() bool { return c.thereLocked()+c.borrowed < c.capacity }

// after is what a call still has to do once it has released the mutex.
type after[T any] struct {
	woken   wait.Woken[parcel[T]] // calls to wake
	spent   core.Lease            // of an item that has left the channel; to be released
	victim  T                     // an item that was dropped, if dropped
	dropped bool
}

// finish does what a call still owes, without the mutex.
func (c *LimitedChannel[T]) finish(a *after[T]) {
	a.woken.Wake()
	a.spent.Release()
	if a.dropped {
		c.drop(a.victim)
	}
}

// putLocked gives v to a waiting receiver, or queues it; there must be room.
func (c *LimitedChannel[T]) putLocked(v T, h hold.Hold, a *after[T]) {
	if c.handLocked(v, h, a) {
		return
	}
	c.queue.push(v, h)
	c.itemWaiters.DecideAll(wait.Granted, &a.woken)
}

// handLocked gives v to the receiver that has waited longest; false if none waits.
func (c *LimitedChannel[T]) handLocked(v T, h hold.Hold, a *after[T]) bool {
	w := c.receivers.Decide(wait.Granted)
	if w == nil {
		return false
	}
	w.Value.item = v
	if w.Value.keeps {
		w.Value.hold = h
		c.borrowLocked()
	} else {
		c.spendLocked(h, a)
	}
	a.woken.Add(w)
	return true
}

// spendLocked gives back what an item held: plain permits at once, a lease, whose release may be user code,
// in finish.
func (c *LimitedChannel[T]) spendLocked(h hold.Hold, a *after[T]) {
	if h.Permits > 0 {
		c.limiter.GivePlain(h.Permits)
	} else {
		a.spent = h.Lease
	}
}

// borrowLocked counts, in a Bounded channel, room that an offered item or the lease of a received item
// holds.
func (c *LimitedChannel[T]) borrowLocked() {
	if c.bounded() {
		c.borrowed++
	}
}

func (c *LimitedChannel[T]) returnRoomLocked() {
	if c.bounded() {
		c.borrowed--
	}
}

// leftLocked is called when items have left or room was given back. It queues the items of senders that
// wait for room, and ends a closed channel that has become empty.
func (c *LimitedChannel[T]) leftLocked(a *after[T]) {
	for !c.senders.Empty() && c.roomLocked() {
		w := c.senders.Decide(wait.Granted)
		if w == nil {
			break
		}
		// A receiver waits at the same time only if leases held all the room. That needs a Bounded
		// channel, whose items hold nothing, so putLocked overwrites no a.spent.
		c.putLocked(w.Value.item, w.Value.hold, a)
		a.woken.Add(w)
	}
	if !c.roomWaiters.Empty() && c.roomLocked() {
		c.roomWaiters.DecideAll(wait.Granted, &a.woken)
	}
	if !c.open.Load() {
		c.endLocked(a)
	}
}

// cost returns the permits that v costs.
func (c *LimitedChannel[T]) cost(v T) int {
	if c.permits == nil {
		return 1
	}
	return c.permits(v)
}

// drop calls OnDrop with an item that no longer holds anything.
func (c *LimitedChannel[T]) drop(v T) {
	if c.onDrop != nil {
		c.onDrop(v)
	}
}
