package channel

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/ending"
)

// LimitedChannel is a queue between goroutines, as a Go channel is, in which each item
// holds a lease of a limiter. Only senders are limited: the lease is released when the
// item is received, discarded or dropped, or at once if a waiting receiver takes it.
//
// With a concurrency limiter it is a bounded channel: one whose queue is disabled refuses
// the item that finds it full, with the limiter's *[core.RejectedError]; else Send waits
// in the limiter's queue. More permits than the limit fail at once with
// [core.ErrPermitsExceedLimit], fewer than 0 with [core.ErrNegativePermits], and neither
// drops anything.
//
// Each sender's items are received in the order in which they were sent. A Send that ends
// with an error has sent nothing and holds nothing; a Receive that ends with an error has
// taken nothing. A ctx that is done ends a call with ctx.Err(), even if it need not wait;
// of an item, room or permits that a caller is given and a ctx that ends, the earlier
// decides. After Close sends get [ErrClosed], and receivers what is left.
//
// All methods may be called from any goroutine, and no goroutine exists but for Chan. A
// sent item happens before it is received. Nothing is allocated per item, but by a Send
// that has to wait in the limiter's queue, and by one that asks a limiter that is not
// core's: that may keep the context it is given, so each call has its own, done once the
// call has returned. Make it with [New] or [Bounded]; the zero value is closed and empty.
type LimitedChannel[T any] struct {
	limiter  core.Limiter   // nil: room alone limits the senders, and items hold nothing
	plain    direct.Permits // the limiter's, if it has such; items then hold no leases
	kind     kind           // of the limiter
	permits  func(T) int    // nil: 1 each
	onDrop   func(T)        // nil: nobody is told
	capacity int            // items at most; math.MaxInt: no bound
	overflow Overflow
	light    bool          // overflow is Reject, and each item holds one plain permit or nothing
	evicts   bool          // overflow is DropOldest or DropNewest
	moves    bool          // evicts, and has no plain permits: transit counts
	says     bool          // the limiter is a core.Reporter
	transit  transit       // if moves
	asking   atomic.Int64  // if evicts: permits that senders ask for in the limiter's Acquire
	closing  ending.Source // ends the waits in the limiter's queue on Close

	// What follows is guarded by mu. While it is held nothing blocks, no user's code runs,
	// and no other lock is taken but, in the modes that evict, a concurrency limiter's.
	//
	// Two invariants: a sender waits for room only while there is none; a receiver waits
	// only while no item is there, on offer or not.
	mu    mutex
	queue ring[T]
	front []offered[T] // older than the queue: what a Chan offers or has given back, oldest first
	lent  int          // without a limiter: room that leases of received items hold

	senders   line[T] // for room, with their items
	receivers line[T] // for an item
	room      line[T] // to see room
	items     line[T] // to see an item
	spare     *waiter[T]
	spares    int // in spare

	recalls     int       // those that wait for an offer to end; while it is not 0, no offer begins
	recallEnded sync.Cond // an offer that was recalled has ended, or recalls is 0 again

	open atomic.Bool // set under mu; read without it to refuse early
	err  error       // what receivers get in the end
	done chan struct{}
	over bool // done is closed
}

// New returns an open channel, or what is wrong with the options, all at once.
func New[T any](o Options[T]) (*LimitedChannel[T], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &LimitedChannel[T]{
		limiter: o.Limiter, kind: kindOf(o.Limiter), permits: o.Permits, onDrop: o.OnDrop, capacity: o.Capacity,
		overflow: o.Overflow, evicts: o.Overflow == DropOldest || o.Overflow == DropNewest,
	}
	if c.capacity == 0 {
		c.capacity = math.MaxInt
	}
	if plain, ok := ways.Permits(o.Limiter); ok {
		c.plain = plain
	}
	c.light = c.plain != nil && c.permits == nil && o.Overflow == Reject
	c.moves = c.evicts && c.plain == nil
	_, c.says = o.Limiter.(core.Reporter)
	switch {
	case c.plain == nil:
		c.queue.holds = leases
	case c.permits != nil:
		c.queue.holds = counts
	default:
		c.queue.holds = ones
	}
	c.start()
	return c, nil
}

// Bounded returns a channel for that many items, at least 1: the drop-in for
// make(chan T, capacity). It behaves as one with a concurrency limiter of capacity permits
// and a queue without bound: TrySend refuses when it is full or somebody waits to send,
// Send waits as long as it takes.
func Bounded[T any](capacity int) (*LimitedChannel[T], error) {
	if capacity < 1 {
		return nil, fmt.Errorf("channel: Bounded capacity = %d, want at least 1", capacity)
	}
	c := &LimitedChannel[T]{capacity: capacity, light: true, queue: ring[T]{holds: nothing}}
	c.start()
	return c, nil
}

func (c *LimitedChannel[T]) start() {
	c.recallEnded.L = &c.mu
	c.done = make(chan struct{})
	c.open.Store(true)
}

// String says for a person how full the channel is, and whether it is closed.
func (c *LimitedChannel[T]) String() string {
	c.mu.Lock()
	n, over := c.lenLocked(), !c.open.Load()
	c.mu.Unlock()
	s := strconv.Itoa(n) + " queued"
	if c.capacity < math.MaxInt && c.done != nil {
		s = fmt.Sprintf("%d of %d queued", n, c.capacity)
	}
	if over {
		s += ", closed"
	}
	return "limited channel: " + s
}

// Len returns the number of items queued. Those of senders that wait are not among them.
func (c *LimitedChannel[T]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lenLocked()
}

func (c *LimitedChannel[T]) lenLocked() int { return len(c.front) + c.queue.n }

func (c *LimitedChannel[T]) roomLocked() bool { return c.lenLocked()+c.lent < c.capacity }

// putLocked gives v to a waiting receiver, or queues it; there must be room. It returns
// whom to wake, and whether h has served its purpose and must be released first.
func (c *LimitedChannel[T]) putLocked(v T, h hold) (woken *waiter[T], spent bool) {
	if c.receivers.first != nil {
		if w := c.receivers.decide(granted); w != nil {
			w.item = v
			if !w.keeps {
				return w, true
			}
			w.hold = h
			c.lendLocked()
			return w, false
		}
	}
	c.queue.push(v, h)
	if c.items.first != nil {
		woken = c.items.decideAll(granted, nil)
	}
	return woken, false
}

// lendLocked notes that a received item's lease holds room from now on.
func (c *LimitedChannel[T]) lendLocked() {
	if c.limiter == nil {
		c.lent++
	}
}

// leftLocked does what follows when an item has left or room was given back: senders who
// wait for room put their items; the last item of a closed channel ends it.
func (c *LimitedChannel[T]) leftLocked() (woken *waiter[T]) {
	for c.senders.first != nil && c.roomLocked() {
		w := c.senders.decide(granted)
		if w == nil {
			break
		}
		// A receiver can be waiting too only if leases hold all the room; then there is no
		// limiter, and nothing that w holds.
		others, _ := c.putLocked(w.item, w.hold)
		w.next, woken = woken, w
		woken = join(others, woken)
	}
	if c.room.first != nil && c.roomLocked() {
		woken = c.room.decideAll(granted, woken)
	}
	if !c.open.Load() {
		woken = c.finishLocked(woken)
	}
	return woken
}

// finishLocked ends a closed channel if it is empty.
func (c *LimitedChannel[T]) finishLocked(woken *waiter[T]) *waiter[T] {
	if c.over || c.done == nil || c.lenLocked() > 0 { // nil: the zero value
		return woken
	}
	c.over = true
	close(c.done)
	return c.items.decideAll(ended, c.receivers.decideAll(ended, woken))
}

// drop tells OnDrop of an item that holds nothing any more.
func (c *LimitedChannel[T]) drop(v T) {
	if c.onDrop != nil {
		c.onDrop(v)
	}
}
