package pipe

import (
	"io"
	"math/bits"
	"sync"
)

const (
	bufferSize = 64 << 10 // bytes in the buffer of a pipe whose limiter does not bound it
	minMemory  = 1 << 10
)

// buffer is a queue of bytes in a ring of memory that grows. Positions are counted in bytes
// since the pipe was made; those from start to end are buffered.
type buffer struct {
	memory     []byte // as long as a power of two
	start, end uint64
}

func (b *buffer) len() int { return int(b.end - b.start) }

// put appends p.
func (b *buffer) put(p []byte) {
	b.grow(len(p))
	first, second := b.at(b.end, len(p))
	copy(second, p[copy(first, p):])
	b.end += uint64(len(p))
}

// take moves the oldest bytes to p. An empty buffer does not keep more memory than most
// pipes need.
func (b *buffer) take(p []byte) int {
	first, second := b.at(b.start, min(len(p), b.len()))
	n := copy(p, first)
	n += copy(p[n:], second)
	b.start += uint64(n)
	if b.start == b.end && len(b.memory) > bufferSize {
		b.memory = nil
	}
	return n
}

// at returns the memory of n bytes from a position on, in two parts.
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

// grow makes room for n bytes more.
func (b *buffer) grow(n int) {
	need := max(b.len()+n, minMemory)
	if need <= len(b.memory) {
		return
	}
	first, second := b.at(b.start, b.len())
	larger := buffer{memory: make([]byte, 1<<bits.Len(uint(need-1))), start: b.start, end: b.start}
	larger.put(first)
	larger.put(second)
	*b = larger
}

// drop drops all bytes and the memory.
func (b *buffer) drop() {
	b.start, b.memory = b.end, nil
}

// copies holds the buffers of WriteTo and ReadFrom.
var copies = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// copyAll copies src to dst by their Read and Write.
func copyAll(dst io.Writer, src io.Reader) (int64, error) {
	buf := copies.Get().(*[bufferSize]byte)
	defer copies.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, buf[:])
}
