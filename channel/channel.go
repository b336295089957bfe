package channel

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/linked"
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
	limiter  core.Limiter   // nil: made by Bounded; capacity alone limits the senders, and items hold nothing
	plain    direct.Permits // of a *core.ConcurrencyLimiter, else nil; if set, items hold plain permits, not leases
	permits  func(T) int    // nil: 1 each
	onDrop   func(T)        // nil: nothing is called
	capacity int            // items at most; math.MaxInt: no bound
	overflow Overflow
	way      way
	closing  linked.Source // ends the waits in the limiter's queue on Close

	// mu guards the fields below. While it is held nothing blocks and no user code runs. The only lock
	// taken under it is that of a core.ConcurrencyLimiter, which never calls back.
	//
	// Two invariants: a sender waits for room only while there is none; a receiver waits only while no
	// item is available.
	mu       mutex
	queue    queue[T]
	returned []offer[T] // items that Chans have returned, oldest first; all are older than those in queue
	offered  int        // items that Chans offer; they are neither in queue nor in returned
	offers   uint64     // offers begun so far
	lent     int        // Bounded only: room held by offered items and by the leases of received items

	senders   line[T] // wait for room, with their items
	receivers line[T] // wait for an item
	room      line[T] // WaitToSend calls: wait until there is room, and take none
	items     line[T] // WaitToReceive calls and Chans: wait until there is an item, and take none
	askers    askers  // Sends that wait in the limiter's queue; used if way is exact

	open     atomic.Bool // set under mu; read without it to return ErrClosed early
	err      error       // the error given to CloseWithError
	done     chan struct{}
	over     bool // done is closed
	panicked any  // the value with which a release panicked on the goroutine of a Chan
}

// way is how a channel takes permits and gives them back.
type way uint8

const (
	general way = iota // items hold leases
	fast               // items hold plain permits or nothing; putFast and popFast apply
	exact              // items hold plain permits, taken and given back under the mutex; see exact.go
)

// New returns an open channel, or an error that reports every invalid option.
func New[T any](o Options[T]) (*LimitedChannel[T], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &LimitedChannel[T]{
		limiter: o.Limiter, permits: o.Permits, onDrop: o.OnDrop, capacity: o.Capacity, overflow: o.Overflow,
	}
	if c.capacity == 0 {
		c.capacity = math.MaxInt
	}
	c.queue.holds = leases
	if plain, ok := ways.Permits(o.Limiter); ok {
		c.plain, c.way, c.queue.holds = plain, fast, ones
		if c.drops() {
			c.way = exact
		}
		if o.Permits != nil {
			c.queue.holds = costs
		}
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
	c := &LimitedChannel[T]{capacity: capacity, way: fast}
	c.start()
	return c, nil
}

func (c *LimitedChannel[T]) start() {
	c.askers.source, c.askers.changed.L = new(linked.Source), &c.mu
	c.done = make(chan struct{})
	c.open.Store(true)
}

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
func (c *LimitedChannel[T]) thereLocked() int { return len(c.returned) + c.queue.items.n }

func (c *LimitedChannel[T]) roomLocked() bool { return c.thereLocked()+c.lent < c.capacity }

// after is what a call still has to do once it has released the mutex.
type after[T any] struct {
	spent   hold       // what an item held that has left the channel; to be given back
	woken   *waiter[T] // a list of waiters to wake
	dropped bool       // victim has been dropped
	victim  T
}

// finish gives back what was spent, then wakes the waiters, and then reports the dropped item. If a
// foreign limiter's release panics, finish still does the rest.
func (c *LimitedChannel[T]) finish(a *after[T]) {
	if a.dropped {
		defer c.drop(a.victim)
	}
	if a.woken != nil {
		defer wake(a.woken)
	}
	c.release(a.spent)
}

// putLocked gives v to a waiting receiver, or queues it; there must be room.
func (c *LimitedChannel[T]) putLocked(v T, h hold, a *after[T]) {
	if c.receivers.first != nil && c.handLocked(v, h, a) {
		return
	}
	c.queue.push(v, h)
	if c.items.first != nil {
		a.woken = c.items.decideAll(granted, a.woken)
	}
}

// handLocked gives v to the receiver that has waited longest; false if none waits.
func (c *LimitedChannel[T]) handLocked(v T, h hold, a *after[T]) bool {
	w := c.receivers.decide(granted)
	if w == nil {
		return false
	}
	w.item = v
	if w.keeps {
		w.hold = h
		c.lendLocked()
	} else {
		c.spendLocked(h, a)
	}
	w.next, a.woken = a.woken, w
	return true
}

// spendLocked gives back what an item held: at once if way is exact, otherwise in finish.
func (c *LimitedChannel[T]) spendLocked(h hold, a *after[T]) {
	if c.way == exact {
		c.release(h)
	} else {
		a.spent = h
	}
}

// lendLocked counts, in a Bounded channel, room that an offered item or the lease of a received item holds.
func (c *LimitedChannel[T]) lendLocked() {
	if c.limiter == nil {
		c.lent++
	}
}

func (c *LimitedChannel[T]) unlendLocked() {
	if c.limiter == nil {
		c.lent--
	}
}

// leftLocked is called when items have left or room was given back. It queues the items of senders that
// wait for room, and ends a closed channel that has become empty.
func (c *LimitedChannel[T]) leftLocked(a *after[T]) {
	for c.senders.first != nil && c.roomLocked() {
		w := c.senders.decide(granted)
		if w == nil {
			break
		}
		// A receiver waits at the same time only if leases held all the room. That needs a Bounded
		// channel, whose items hold nothing, so putLocked overwrites no a.spent.
		c.putLocked(w.item, w.hold, a)
		w.next, a.woken = a.woken, w
	}
	if c.room.first != nil && c.roomLocked() {
		a.woken = c.room.decideAll(granted, a.woken)
	}
	if !c.open.Load() {
		c.endLocked(a)
	}
}

// drop calls OnDrop with an item that no longer holds anything.
func (c *LimitedChannel[T]) drop(v T) {
	if c.onDrop != nil {
		c.onDrop(v)
	}
}
