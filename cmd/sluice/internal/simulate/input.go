package simulate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

// lines yields the lines of a log, which may be compressed by gzip. They are valid until the next.
func lines(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		b, err := plain(bufio.NewReaderSize(r, 1<<20))
		if err == nil {
			if mark, _ := b.Peek(3); string(mark) == "\ufeff" { // some programs begin UTF-8 with it
				_, err = b.Discard(len(mark))
			}
		}
		for err == nil {
			var line []byte
			line, err = nextLine(b)
			if (len(line) > 0 || err == nil) && !yield(line, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, err)
		}
	}
}

// plain returns what is in b, uncompressed.
func plain(b *bufio.Reader) (*bufio.Reader, error) {
	if magic, _ := b.Peek(2); len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(z, 1<<20), nil
}

// nextLine reads a line without its end. The last one comes with the error that ends the log.
func nextLine(b *bufio.Reader) ([]byte, error) {
	line, err := b.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			if line, err = b.ReadSlice('\n'); len(long) < longestLine {
				long = append(long, line...)
			}
		}
		line = long
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'}), err
}

// longestLine is how much of a line is kept; more is no line of a log.
const longestLine = 16 << 20

// request is what the plan makes of a record, and what it costs no memory to keep until it is played.
type request = arrival

const batchSize = 2048

// batch is some requests of one log, in its order.
type batch struct {
	requests []request
	bad      int
	err      error
}

// read reads a log to its end, batch by batch.
func read(ctx context.Context, name string, stdin io.Reader, p parser, pl *plan) <-chan batch {
	out := make(chan batch, 4)
	go func() {
		defer close(out)
		send := func(b batch) bool {
			select {
			case out <- b:
				return true
			case <-ctx.Done():
				return false
			}
		}
		f, err := open(name, stdin)
		if err != nil {
			send(batch{err: err})
			return
		}
		defer func() { _ = f.Close() }()
		b := batch{requests: make([]request, 0, batchSize)}
		var r record
		for line, err := range lines(f) {
			switch {
			case err != nil:
				b.err = fmt.Errorf("%s: %w", name, err)
			case len(line) == 0:
			case p.parse(line, &r):
				b.requests = append(b.requests, pl.request(&r))
			default:
				b.bad++
			}
			if b.err != nil || len(b.requests) == batchSize {
				if !send(b) || b.err != nil {
					return
				}
				b = batch{requests: make([]request, 0, batchSize)}
			}
		}
		send(b)
	}()
	return out
}

func open(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}

// merge yields the batches of several logs as one, by the times of the requests. Each log counts as being in order:
// a late line stands at the newest instant that its log has seen.
func merge(logs []<-chan batch) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		if len(logs) == 1 {
			for b := range logs[0] {
				if !yield(b) {
					return
				}
			}
			return
		}
		m := merger{out: batch{requests: make([]request, 0, batchSize)}}
		for _, l := range logs {
			m.refill(&head{log: l}, false)
		}
		heap.Init(&m.heads)
		for len(m.heads) > 0 && m.out.err == nil {
			m.step()
			if len(m.out.requests) == batchSize {
				if !yield(m.out) {
					return
				}
				m.out = batch{requests: make([]request, 0, batchSize)}
			}
		}
		yield(m.out)
	}
}

// merger takes the earliest request of several logs, one after the other.
type merger struct {
	heads heads
	out   batch
}

func (m *merger) step() {
	h := m.heads[0]
	m.out.requests = append(m.out.requests, h.requests[0])
	if h.requests = h.requests[1:]; len(h.requests) == 0 {
		m.refill(h, true)
	} else {
		heap.Fix(&m.heads, 0)
	}
}

// refill reads more of a log; it stays among the heads, as the first, if there is more, and else leaves them.
func (m *merger) refill(h *head, first bool) {
	bad, err := h.fill()
	m.out.bad += bad
	m.out.err = errors.Join(m.out.err, err)
	switch more := len(h.requests) > 0; {
	case more && first:
		heap.Fix(&m.heads, 0)
	case more:
		m.heads = append(m.heads, h)
	case first:
		heap.Pop(&m.heads)
	}
}

// head is a log and what was read of it and not yet merged.
type head struct {
	log      <-chan batch
	requests []request
	newest   int64
}

// fill reads until there is a request, or no more.
func (h *head) fill() (bad int, err error) {
	for b := range h.log {
		bad += b.bad
		for i := range b.requests {
			h.newest = max(h.newest, b.requests[i].at)
			b.requests[i].at = h.newest
		}
		if h.requests = b.requests; len(h.requests) > 0 || b.err != nil {
			return bad, b.err
		}
	}
	h.requests = nil
	return bad, nil
}

type heads []*head

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return h[i].requests[0].at < h[j].requests[0].at }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(*head)) } //nolint:forcetypeassert // it holds nothing else
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = slices.Delete(*h, len(*h)-1, len(*h))
	return last
}
