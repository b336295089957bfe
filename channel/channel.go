package channel

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/list"
	"github.com/sluice-go/sluice/internal/ring"
	"github.com/sluice-go/sluice/internal/wait"
)

// LimitedChannel is a queue between goroutines, like a Go channel, in which each item holds a lease of a
// limiter. Only senders are limited: the lease is released when the item is received (except by ReceiveLease),
// discarded or dropped. Create it with [New] or [Bounded]; the zero value is closed and empty. Most callers
// want Send and Receive.
//
// With a [core.ConcurrencyLimiter] it is a bounded channel: when the channel is full, Send waits, even if
// the limiter's QueueLimit is 0. An item that costs more permits than the limit fails immediately with
// [core.ErrPermitsExceedLimit], and an item that costs fewer than 0 with [core.ErrNegativePermits];
// neither drops another item.
//
// Items of one sender are received in the order in which they were sent. A Send that returns an error has sent nothing
// and holds nothing; a Receive that returns an error has taken nothing. A call whose ctx is already done returns
// ctx.Err(), even if it would not have to wait. If ctx ends while a call waits, the call returns ctx.Err(), unless it
// has already been given its item, or both room and permits. A call that returns ctx.Err() keeps no permits. After
// Close, sends return [ErrClosed], and receives return the remaining items.
//
// All methods are safe for concurrent use. The send of an item happens before its receive. Only Chan starts a
// goroutine; for a custom context, package context may start another one. With a limiter of package core, a send or a
// receive that does not wait allocates nothing, except ReceiveLease on a Bounded channel, which allocates the lease.
type LimitedChannel[T any] struct {
	limiter  hold.Limiter // none if bounded
	costs    func(T) int  // cost of an item; nil means 1 each
	onDrop   func(T)      // nil means that nothing is called
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
	// Two invariants: a sender waits for room only while there is none or another one leads; a receiver waits
	// only while no item is available.
	mu       wait.Mutex
	items    ring.Ring[T]         // items that any receiver can take, oldest first
	holds    hold.Ledger          // what they hold
	offers   list.List[*offer[T]] // items that Chans offer, or have returned; oldest first, all older than items
	offered  int                  // offers that a Chan makes now
	reserved int                  // room that no queued item takes: see roomLocked

	senders   hold.Queue[*wait.Waiter[call[T]]] // wait for room, in the limiter's order
	sending   wait.List[call[T]]                // makes the waiters of senders
	leads     bool                              // a sender that has waited for room is calling the limiter
	receivers wait.List[call[T]]                // wait for an item

	work      work[T]      // for when the mutex is released
	late      ring.Ring[T] // dropped items of which OnDrop has not been told
	reporters int          // calls that tell OnDrop of them

	open atomic.Bool   // set under mu; read without it to return ErrClosed early
	err  error         // the error given to CloseWithError
	done chan struct{} // nil until Done is called, so that it belongs to the synctest bubble that uses the channel
}

// call is a call that waits: a send for room, or a receive for an item.
type call[T any] struct {
	moves bool // false: it waits for a Try form of the caller, and moves no item
	item  T    // the item to send, or that was received

	// Of a send:
	place hold.Place[*wait.Waiter[call[T]]]
	n     int  // permits
	asks  bool // it was given room alone: it leads, and has to call the limiter

	// Of a receive:
	keeps bool      // the caller keeps what the item holds
	hold  hold.Hold // what the item holds
}

// New returns an open channel, or an error that lists all invalid options.
func New[T any](o Options[T]) (*LimitedChannel[T], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &LimitedChannel[T]{
		limiter: hold.Of(o.Limiter), costs: o.Cost, onDrop: o.OnDrop, capacity: o.Capacity, overflow: o.Overflow,
		items: ring.ForLarge[T](),
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
	c := &LimitedChannel[T]{capacity: capacity, plain: true, holds: hold.Fixed(0), items: ring.ForLarge[T]()}
	c.open.Store(true)
	return c, nil
}

// bounded reports whether c was made by Bounded: it has no limiter, capacity alone limits the senders, and
// items hold nothing.
func (c *LimitedChannel[T]) bounded() bool { return c.limiter.Limiter == nil }

// String returns a human-readable line: how many items are queued, and whether c is closed.
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

func (c *LimitedChannel[T]) lenLocked() int { return c.offers.Len() + c.items.Len() }

// thereLocked returns the number of items that any receiver can take.
func (c *LimitedChannel[T]) thereLocked() int { return c.lenLocked() - c.offered }

// roomLocked reports whether there is room for one more item. Room is also reserved: for the senders for which the
// limiter is being called and, in a Bounded channel, by the leases of received items. Items that a Chan offers take room
// in a Bounded channel only.
func (c *LimitedChannel[T]) roomLocked() bool {
	if c.bounded() {
		return c.lenLocked()+c.reserved < c.capacity
	}
	return c.capacity == math.MaxInt || c.thereLocked()+c.reserved < c.capacity
}

// work is what is to be done when the mutex is released, because it calls user code or takes long.
type work[T any] struct {
	decided  wait.Woken[call[T]]
	released core.Lease // lease of an item that has left the channel; one call releases at most one
	dropped  int        // items added to late
}

// unlock releases the mutex, and then does the work that is left.
func (c *LimitedChannel[T]) unlock() {
	if w := &c.work; w.decided.Empty() && !w.released.Acquired() && w.dropped == 0 {
		c.mu.Unlock()
	} else {
		c.unlockSlow()
	}
}

// unlockSlow is the rest of unlock. The calls that were given an item return after its lease is released, and OnDrop is
// told last.
func (c *LimitedChannel[T]) unlockSlow() {
	w := c.work
	c.work = work[T]{}
	c.mu.Unlock()
	if w.dropped > 0 {
		defer c.report(w.dropped)
	}
	defer w.decided.Wake() // deferred, because the release may panic
	w.released.Release()
}

// free ends the use of a waiter. Its item is cleared if it might keep something alive.
func (c *LimitedChannel[T]) free(w *wait.Waiter[call[T]]) {
	v := &w.Value
	if v.hold = (hold.Hold{}); c.items.HasPointers() {
		var none T
		v.item = none
	}
	w.Free()
}

// putLocked gives *v to a waiting receiver, or queues it; there must be room.
func (c *LimitedChannel[T]) putLocked(v *T, h hold.Hold) {
	if !c.handLocked(v, h) {
		c.items.PushFrom(v)
		c.holds.Push(1, h)
	}
}

// handLocked gives *v to the receiver that has waited longest; false if none waits. Calls before it that wait
// without taking an item are woken.
func (c *LimitedChannel[T]) handLocked(v *T, h hold.Hold) bool {
	for w := c.receivers.Decide(wait.Granted); w != nil; w = c.receivers.Decide(wait.Granted) {
		c.work.decided.Add(w)
		if r := &w.Value; r.moves {
			r.item = *v
			if r.keeps {
				r.hold = h
			}
			c.passLocked(h, r.keeps)
			return true
		}
	}
	return false
}

// passLocked is called when an item goes to a receiver. It returns what the item held: plain permits immediately, and a
// lease, whose release may be user code, in unlock. A receiver that keeps the lease keeps room in a Bounded channel.
func (c *LimitedChannel[T]) passLocked(h hold.Hold, keeps bool) {
	switch {
	case keeps:
		c.reserved += count(c.bounded())
	case h.Permits > 0:
		c.limiter.GivePlain(h.Permits)
	default:
		c.work.released = h.Lease
	}
}

// leftLocked is called when there may be room, or when no sender leads any more. It serves the senders that wait, and ends
// a closed channel that has become empty.
func (c *LimitedChannel[T]) leftLocked() {
	for c.senders.Len() > 0 && c.firstLocked() {
		w := c.senders.Pop()
		if !w.Decide(wait.Granted) {
			continue // its context is done
		}
		c.work.decided.Add(w)
		switch s := &w.Value; {
		case !c.payLocked(s.n):
			s.asks, c.leads = true, true
			c.reserved += count(s.moves)
		case s.moves:
			c.putLocked(&s.item, c.holdOf(s.n))
		}
	}
	if !c.open.Load() {
		c.endLocked()
	}
}

// cost returns the permits that *v costs.
func (c *LimitedChannel[T]) cost(v *T) int {
	if c.costs == nil {
		return 1
	}
	return c.costs(*v)
}
