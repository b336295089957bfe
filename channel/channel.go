package channel

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/linked"
)

// LimitedChannel is a queue between goroutines, like a Go channel, in which each item holds a lease of a
// limiter. Only senders are limited: the lease is released when the item is received, discarded or
// dropped, or at once if a waiting receiver takes the item.
//
// With a [core.ConcurrencyLimiter] it is a bounded channel. If the limiter has no queue, an item that
// finds the channel full is rejected with the limiter's *[core.RejectedError]; otherwise Send waits in
// the limiter's queue. An item that costs more permits than the limit fails at once with
// [core.ErrPermitsExceedLimit], one that costs fewer than 0 with [core.ErrNegativePermits]; neither
// drops anything.
//
// Items of one sender are received in the order in which they were sent. A Send that returns an error has
// sent nothing and holds nothing; a Receive that returns an error has taken nothing. A call whose ctx is
// done returns ctx.Err(), even if it need not wait. If a waiting caller is given an item, room or permits
// and its ctx ends, the earlier event decides. After Close sends return [ErrClosed], and receivers get
// what is left.
//
// All methods are safe for concurrent use. The send of an item happens before its receive. Only Chan starts
// a goroutine. With a limiter of package core, a send or a receive that need not wait allocates nothing, but
// for a lease of a Bounded channel. The zero value is closed and empty; use [New] or [Bounded].
type LimitedChannel[T any] struct {
	limiter  core.Limiter   // nil: Bounded's, where room alone limits the senders and items hold nothing
	plain    direct.Permits // the limiter's, if it is core's ConcurrencyLimiter; then items hold no leases
	permits  func(T) int    // nil: 1 each
	onDrop   func(T)        // nil: nothing is called
	capacity int            // items at most; math.MaxInt: no bound
	overflow Overflow
	way      way
	closing  linked.Source // ends the waits in the limiter's queue on Close

	// mu guards what follows. While it is held nothing blocks and no user's code runs. No other lock is
	// taken but that of a core.ConcurrencyLimiter, which knows no channel.
	//
	// Two invariants: a sender waits for room only while there is none; a receiver waits only while no
	// item is there.
	mu       sync.Mutex
	queue    queue[T]
	returned []offer[T] // older than the queue: what Chans have given back, oldest first
	offered  int        // items that Chans offer; they are in neither of the above
	offers   uint64     // offers begun so far
	lent     int        // without a limiter: room that offers and the leases of received items hold

	senders   line[T] // for room, with their items
	receivers line[T] // for an item
	room      line[T] // to see room
	items     line[T] // to see an item
	askers    askers  // Sends in the limiter's queue, if exact

	open     atomic.Bool // set under mu; read without it to refuse early
	err      error       // what receivers get in the end
	done     chan struct{}
	over     bool // done is closed
	panicked any  // with what a release panicked on the goroutine of a Chan
}

// way is how permits are taken and given back, on an item's way through the channel.
type way uint8

const (
	general way = iota // items hold leases
	fast               // plain permits, or none: putFast and popFast do
	exact              // plain permits, which are taken and given back under the mutex, so that drops are exact
)

// New returns an open channel, or an error that names every fault in the options.
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

// Bounded returns a channel for capacity items: the drop-in for make(chan T, capacity). capacity must be
// at least 1. The channel behaves as one with a concurrency limiter of capacity permits and an unbounded
// queue: TrySend is rejected when the channel is full or senders wait, and Send waits as long as it takes.
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

// String describes how full the channel is, and whether it is closed, for diagnostics.
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

// Len returns the number of items queued, those that a Chan offers included. Items of waiting senders
// do not count.
func (c *LimitedChannel[T]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lenLocked()
}

func (c *LimitedChannel[T]) lenLocked() int { return c.thereLocked() + c.offered }

// thereLocked returns the number of items that are there for any receiver.
func (c *LimitedChannel[T]) thereLocked() int { return len(c.returned) + c.queue.items.n }

func (c *LimitedChannel[T]) roomLocked() bool { return c.thereLocked()+c.lent < c.capacity }

// after is what a call has left to do once it has released the mutex.
type after[T any] struct {
	spent   hold       // to give back: an item has left that held it
	woken   *waiter[T] // to resume
	dropped bool
	victim  T // what was dropped
}

// finish gives back what was spent, then wakes those that may take it, and reports the item that was
// dropped. A user's release may panic; the rest is done nevertheless.
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

// spendLocked has what an item held given back: at once where drops are exact.
func (c *LimitedChannel[T]) spendLocked(h hold, a *after[T]) {
	if c.way == exact {
		c.release(h)
	} else {
		a.spent = h
	}
}

// lendLocked notes that room is held by the lease of a received item, or by an offer.
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

// leftLocked does what follows when items have left or room was given back: senders that wait for room
// put their items, and the last item of a closed channel ends it.
func (c *LimitedChannel[T]) leftLocked(a *after[T]) {
	for c.senders.first != nil && c.roomLocked() {
		w := c.senders.decide(granted)
		if w == nil {
			break
		}
		// A receiver can be waiting, too, only if leases hold all the room; then there is no limiter, and
		// nothing is spent.
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

// drop reports an item to OnDrop that holds nothing any more.
func (c *LimitedChannel[T]) drop(v T) {
	if c.onDrop != nil {
		c.onDrop(v)
	}
}
