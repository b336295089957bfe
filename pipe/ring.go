package pipe

import "sync/atomic"

const (
	bufferSize = 64 << 10 // bytes in the buffer of a pipe whose limiter does not bound it
	minBlock   = 1 << 10
	maxBlock   = 16 << 10
	maxSpares  = bufferSize / maxBlock
)

// ring is the buffer: a queue of blocks, for one writer and one reader at a time, who
// need no lock. What is in it lies between two positions, counted in bytes since the pipe
// was made. Only the writer moves one, only the reader the other, and each after it has
// copied: so the bytes between them are the reader's and all the others are the writer's.
type ring struct {
	// Of the writer, whose turn guards them.
	tail     *block
	fill     int    // bytes of tail that are written
	end      uint64 // as written
	seen     uint64 // read, when the writer last looked
	capacity int    // bytes
	spares   *block
	_        [64]byte

	// Of the reader, whose turn guards them.
	head  *block
	used  int    // bytes of head that are read
	start uint64 // as read
	known uint64 // written, when the reader last looked
	_     [64]byte

	written atomic.Uint64
	_       [56]byte
	read    atomic.Uint64
	free    atomic.Pointer[block] // blocks to be used again: the reader adds one, the writer takes all
	_       [48]byte
}

// block is a part of the buffer. next is set before bytes of the next block count as
// written.
type block struct {
	next  *block
	depth int // blocks under this one in ring.free
	data  []byte
}

func (r *ring) init() {
	stub := new(block)
	r.head, r.tail = stub, stub
	r.capacity = bufferSize
}

// room returns the bytes that can be put, exactly so if they are fewer than n.
func (r *ring) room(n int) int {
	room := r.capacity - int(r.end-r.seen)
	if room < n {
		r.seen = r.read.Load()
		room = max(r.capacity-int(r.end-r.seen), 0)
	}
	return room
}

// put appends b, for which there is room.
func (r *ring) put(b []byte) {
	for {
		n := copy(r.tail.data[r.fill:], b)
		r.fill += n
		r.end += uint64(n)
		if b = b[n:]; len(b) == 0 {
			break
		}
		r.extend(len(b))
	}
	r.written.Store(r.end)
}

// extend appends a block, the larger the more is buffered.
func (r *ring) extend(n int) {
	size := minBlock
	for need := n + int(r.end-r.read.Load()); size < need && size < maxBlock; {
		size *= 4
	}
	if r.spares == nil {
		r.spares = r.free.Swap(nil)
	}
	b := r.spares
	if b != nil && len(b.data) >= size {
		r.spares, b.next = b.next, nil
	} else {
		r.spares = nil // too small: let them go
		b = &block{data: make([]byte, size)}
	}
	r.tail.next = b
	r.tail, r.fill = b, 0
}

// buffered returns how many bytes can be taken, exactly so if there are none.
func (r *ring) buffered() int {
	if r.known == r.start {
		r.known = r.written.Load()
	}
	return int(r.known - r.start)
}

// take moves the oldest bytes to b.
func (r *ring) take(b []byte) int {
	if n := int(r.known - r.start); n < len(b) {
		r.known = r.written.Load()
		b = b[:min(len(b), int(r.known-r.start))]
	}
	if len(b) == 0 {
		return 0
	}
	n := copy(b, r.head.data[r.used:])
	r.used += n
	for n < len(b) {
		r.drop()
		r.used = copy(b[n:], r.head.data)
		n += r.used
	}
	r.start += uint64(n)
	r.read.Store(r.start)
	return n
}

// drop goes on to the next block and leaves this one for the writer to use again.
func (r *ring) drop() {
	b := r.head
	r.head, r.used = b.next, 0
	if len(b.data) == 0 {
		return
	}
	for {
		top := r.free.Load()
		b.next, b.depth = top, 1
		if top != nil {
			b.depth += top.depth
		}
		if b.depth > maxSpares || r.free.CompareAndSwap(top, b) {
			return
		}
	}
}
