package pipe

import (
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
)

// leases are what the bytes in the ring hold, in the order of the bytes: a queue of
// blocks that needs no lock, for the same writer and reader as the ring's. A lease is
// pushed before its bytes are put, and popped after the last of them was taken: so what
// the ring shows the reader of its bytes, it shows of their leases too.
type leases struct {
	// Of the writer, whose turn guards them.
	tail   *leaseBlock
	fill   int // elements of tail that are set
	spares *leaseBlock
	_      [64]byte

	// Of the reader, whose turn guards them.
	head *leaseBlock
	used int    // elements of head that are popped
	end  uint64 // position up to which leases are popped
	_    [64]byte

	free atomic.Pointer[leaseBlock] // to be used again: the reader adds one, the writer takes all
	_    [56]byte
}

const (
	// So many leases are released in one call: more saves little, and they are on the stack.
	releasedTogether = 16

	leaseBlockLen = 64 // a block is 2.5 KiB

	// Blocks that an empty queue keeps: enough for a buffer of single bytes.
	maxSpareLeases = bufferSize / leaseBlockLen
)

// leaseBlock is a part of the queue. next is set before an element of the next block is.
type leaseBlock struct {
	next  *leaseBlock
	depth int // blocks under this one in leases.free
	held  [leaseBlockLen]holding
}

// holding is the lease of the bytes up to a position.
type holding struct {
	lease core.Lease
	end   uint64
}

// push appends the lease of the bytes up to end.
func (l *leases) push(lease core.Lease, end uint64) {
	if l.tail == nil || l.fill == leaseBlockLen {
		l.extend()
	}
	h := &l.tail.held[l.fill]
	h.lease, h.end = lease, end
	l.fill++
}

func (l *leases) extend() {
	if l.spares == nil {
		l.spares = l.free.Swap(nil)
	}
	b := l.spares
	if b != nil {
		l.spares, b.next = b.next, nil
	} else {
		b = new(leaseBlock)
	}
	if l.tail == nil {
		l.head = b // the reader looks there after bytes were put only
	} else {
		l.tail.next = b
	}
	l.tail, l.fill = b, 0
}

// release releases the leases of which all bytes are before start.
func (l *leases) release(start uint64) {
	if l.end >= start {
		return
	}
	// Small writes make many leases for one read: together they cost the limiter one turn.
	var together [releasedTogether]core.Lease
	n, whole := 0, false
	defer func() {
		if !whole { // a user's limiter panicked; the others have their turn
			l.release(start)
		}
	}()
	for l.end < start {
		if n == len(together) {
			n = 0
			core.ReleaseAll(together[:])
		}
		if l.used == leaseBlockLen {
			l.drop()
		}
		h := &l.head.held[l.used]
		if h.end > start {
			break
		}
		l.end = h.end
		l.used++
		together[n] = h.lease
		h.lease = core.Lease{}
		n++
	}
	core.ReleaseAll(together[:n])
	whole = true
}

// drop goes on to the next block and leaves this one for the writer to use again.
func (l *leases) drop() {
	b := l.head
	l.head, l.used = b.next, 0
	for {
		top := l.free.Load()
		b.next, b.depth = top, 1
		if top != nil {
			b.depth += top.depth
		}
		if b.depth > maxSpareLeases || l.free.CompareAndSwap(top, b) {
			return
		}
	}
}
