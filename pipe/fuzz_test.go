package pipe_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/pipe"
)

// FuzzModel plays writes and reads of all sizes, some given up, on a pipe and on a
// bytes.Buffer.
func FuzzModel(f *testing.F) {
	f.Add(uint16(0), []byte{1, 0, 10, 0, 0, 4, 0, 0, 200})
	f.Add(uint16(100), []byte{1, 0, 255, 3, 0, 40, 2, 1, 0, 0, 1, 0, 1, 2, 0})
	f.Add(uint16(9), []byte{1, 255, 255, 0, 10, 0, 1, 255, 255, 0, 255, 255, 0, 255, 255, 3, 0, 0, 0, 255, 255})
	f.Add(uint16(20_000), []byte{0, 255, 255, 1, 255, 255, 1, 200, 0, 2, 1, 1, 1, 1, 1, 3, 0, 0, 0, 9, 9, 0, 255, 255})
	f.Fuzz(func(t *testing.T, limit uint16, ops []byte) {
		if len(ops) <= 300 {
			play(t, limit, ops)
		}
	})
}

// TestRandomCalls is a short walk of the fuzz target, the same each time.
func TestRandomCalls(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for round := range testkit.Rounds(400) {
		limit := []uint16{0, 0, 1000, 30_000, 65_535}[round%5]
		ops := make([]byte, 90+round%2)
		for i := range ops {
			ops[i] = byte(random.Uint32())
			if i%3 == 1 {
				ops[i] >>= random.IntN(8) // sizes of all magnitudes
			}
		}
		play(t, limit, ops)
	}
}

func play(t *testing.T, limit uint16, ops []byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &model{t: t, limit: int(limit)}
		o := pipe.Options{}
		most := 1 << 16
		if limit > 0 {
			most = min(most, 100*m.limit) // byte by byte it takes long
			l := concurrency(t, m.limit, 1<<30)
			o.WriteLimiter = l
			defer func() { assert.Equal(t, m.limit, l.Available(), "every permit is back") }()
		}
		m.r, m.w = newPipe(t, o)
		abrupt := len(ops)%3 == 1
		for ; len(ops) >= 3; ops = ops[3:] {
			m.play(ops[0]%4, int(binary.BigEndian.Uint16(ops[1:]))%most)
		}
		if abrupt { // with bytes that were not read, and calls that wait
			assert.NoError(t, m.r.Close())
			synctest.Wait()
			return
		}
		m.finish()
	})
}

// model has the bytes that were written and not read.
type model struct {
	t     *testing.T
	limit int
	r     *pipe.Reader
	w     *pipe.Writer

	next   byte
	left   bytes.Buffer
	reads  *call // waits
	writes *call // waits
}

// call is a Read or a Write in progress.
type call struct {
	cancel context.CancelFunc
	buf    []byte
	done   bool
	early  int // of a Write: bytes that were read before it came back
	n      int
	err    error
}

func (m *model) play(op byte, size int) {
	switch op {
	case 0: // read
		if m.reads == nil {
			m.reads = m.call(make([]byte, size), m.r.ReadContext)
		}
	case 1: // write
		if m.writes == nil {
			m.writes = m.call(m.fresh(2*size), m.w.WriteContext)
		}
	case 2: // give up
		if c := m.reads; c != nil && size%2 == 0 {
			c.cancel()
		}
		if c := m.writes; c != nil && size%3 == 0 {
			c.cancel()
		}
	case 3:
		if size%16 == 0 {
			assert.NoError(m.t, m.w.Close())
		}
	}
	m.settle()
}

func (m *model) call(buf []byte, f func(context.Context, []byte) (int, error)) *call {
	ctx, cancel := context.WithCancel(m.t.Context())
	c := &call{cancel: cancel, buf: buf}
	go func() {
		c.n, c.err = f(ctx, buf)
		c.done = true
	}()
	return c
}

// settle lets all calls continue as far as they can, and compares.
func (m *model) settle() {
	synctest.Wait()
	written := 0
	if c := m.writes; c != nil && c.done {
		require.GreaterOrEqual(m.t, c.n, c.early)
		m.left.Write(c.buf[c.early:c.n])
		m.next += byte(c.n)
		written = c.n - c.early
		if c.err == nil {
			assert.Len(m.t, c.buf, c.n)
		}
		m.writes = nil
		c.cancel()
	}
	if c := m.reads; c != nil && c.done {
		m.checkRead(c)
		m.reads = nil
		c.cancel()
	} else if c != nil {
		assert.Zero(m.t, m.r.Buffered(), "a Read waits while there are bytes")
		assert.Zero(m.t, written, "a Read waits while bytes were written")
	}
	if m.limit > 0 {
		assert.LessOrEqual(m.t, m.r.Buffered(), m.limit)
	} else if c := m.writes; c != nil {
		assert.Greater(m.t, m.r.Buffered()+len(c.buf)-c.early, 64<<10, "a Write waits that fits into the buffer")
	}
}

// checkRead compares a Read with the model. It may have got bytes of a Write that still
// waits.
func (m *model) checkRead(c *call) {
	if c.err != nil {
		assert.Zero(m.t, c.n)
		return
	}
	want := m.left.Next(c.n)
	if rest := c.n - len(want); rest > 0 {
		w := m.writes
		require.NotNil(m.t, w, "bytes that were not written")
		want = append(bytes.Clone(want), w.buf[w.early:w.early+rest]...)
		w.early += rest
	}
	require.True(m.t, bytes.Equal(want, c.buf[:c.n]), "every byte in order")
}

func (m *model) fresh(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = m.next + byte(i)
	}
	return b
}

func (m *model) finish() {
	for m.writes != nil || m.reads != nil {
		require.False(m.t, m.writes != nil && m.reads != nil, "both wait for each other")
		if m.writes == nil {
			assert.NoError(m.t, m.w.Close())
		}
		if m.reads == nil {
			m.play(0, 1<<15)
			continue
		}
		m.settle()
	}
	assert.NoError(m.t, m.w.Close())
	_, err := io.Copy(io.Discard, m.r)
	assert.NoError(m.t, err)
	assert.NoError(m.t, m.r.Close())
}
