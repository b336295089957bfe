package pipe

import (
	"io"
	"math/bits"
	"sync"
)

const (
	bufferSize = 64 << 10 // capacity of the buffer, unless Options or a limiter say otherwise
	minMemory  = 1 << 10
)

// buffer is a queue of bytes in a ring that grows. Positions are counted in bytes since the pipe
// was created; the bytes from start to end are buffered.
type buffer struct {
	memory     []byte // its length is a power of two
	start, end uint64
	keep       int // memory of at most that many bytes is not freed while the buffer is empty
}

func (b *buffer) len() int { return int(b.end - b.start) }

// put appends p.
func (b *buffer) put(p []byte) {
	b.grow(len(p))
	first, second := b.at(b.end, len(p))
	copy(second, p[copy(first, p):])
	b.end += uint64(len(p))
}

// take moves the oldest bytes to p. If the buffer is then empty and its memory is larger than
// keep, take frees the memory.
func (b *buffer) take(p []byte) int {
	first, second := b.at(b.start, min(len(p), b.len()))
	n := copy(p, first)
	n += copy(p[n:], second)
	b.start += uint64(n)
	if b.start == b.end && len(b.memory) > b.keep {
		b.memory = nil
	}
	return n
}

// at returns the memory of n bytes from position, in two parts.
func (b *buffer) at(position uint64, n int) (first, second []byte) {
	if n == 0 {
		return nil, nil
	}
	i := int(position & uint64(len(b.memory)-1))
	if k := len(b.memory) - i; n > k {
		return b.memory[i:], b.memory[:n-k]
	}
	return b.memory[i : i+n], nil
}

// grow makes room for n more bytes.
func (b *buffer) grow(n int) {
	need := max(b.len()+n, minMemory)
	if need <= len(b.memory) {
		return
	}
	first, second := b.at(b.start, b.len())
	larger := buffer{memory: make([]byte, 1<<bits.Len(uint(need-1))), start: b.start, end: b.start, keep: b.keep}
	larger.put(first)
	larger.put(second)
	*b = larger
}

// drop drops all bytes and frees the memory.
func (b *buffer) drop() {
	b.start, b.memory = b.end, nil
}

// copies holds the buffers of WriteTo and ReadFrom.
var copies = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// copyAll copies src to dst, using only their Read and Write methods.
func copyAll(dst io.Writer, src io.Reader) (int64, error) {
	buf := copies.Get().(*[bufferSize]byte)
	defer copies.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, buf[:])
}
