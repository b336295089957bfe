package pipe_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

// explosive panics some times, and then grants.
type explosive struct {
	core.Limiter

	times int
}

func (e *explosive) Acquire(ctx context.Context, n int) (core.Lease, error) {
	if e.times > 0 {
		e.times--
		panic("limiter")
	}
	return e.Limiter.Acquire(ctx, n)
}

func TestALimiterThatPanicsLeavesThePipeUsable(t *testing.T) {
	t.Parallel()
	l := concurrency(t, 100, 0)
	r, w := newPipe(t, pipe.Options{WriteLimiter: &explosive{l, 1}, ReadLimiter: &explosive{core.Unlimited(), 1}})
	assert.Panics(t, func() { _, _ = w.Write([]byte("lost")) })
	available(t, l, 100)
	writes(t, w, "text")
	assert.Panics(t, func() { _, _ = r.Read(make([]byte, 9)) })
	reads(t, r, 9, "text")
	available(t, l, 100)
}

func TestString(t *testing.T) {
	t.Parallel()
	r, w := newPipe(t, pipe.Options{WriteLimiter: foreign{}})
	assert.Equal(t, "pipe reader, unlimited, 0 bytes buffered", r.String())
	assert.Equal(t, "pipe writer, limited by pipe_test.foreign", w.String())
	assert.Equal(t, "pipe reader, closed", new(pipe.Reader).String())
	assert.Equal(t, "pipe writer, closed", new(pipe.Writer).String())
	a, _, err := pipe.Conns(pipe.Options{}, pipe.Options{})
	require.NoError(t, err)
	assert.Equal(t, "pipe connection, reading unlimited, writing unlimited", fmt.Sprint(a))
}

// brittle is a limiter whose Statistics panics a number of times.
type brittle struct {
	core.Limiter

	times int
}

func (b *brittle) Statistics() core.Statistics {
	if b.times > 0 {
		b.times--
		panic("statistics")
	}
	return b.Limiter.(core.Reporter).Statistics()
}

// A limiter may panic after it has granted the permits. They are refunded.
func TestALimiterThatPanicsAfterTheGrant(t *testing.T) {
	t.Parallel()
	l := concurrency(t, 100, 0)
	writing, reading := &brittle{Limiter: l}, &brittle{Limiter: l}
	r, w := newPipe(t, pipe.Options{WriteLimiter: writing})
	writing.times = 1
	assert.Panics(t, func() { _, _ = w.Write([]byte("lost")) })
	available(t, l, 100)
	writes(t, w, "text")
	reads(t, r, 9, "text")
	available(t, l, 100)

	r, w = newPipe(t, pipe.Options{ReadLimiter: reading})
	writes(t, w, "text")
	reading.times = 1
	assert.Panics(t, func() { _, _ = r.Read(make([]byte, 9)) })
	available(t, l, 100)
	reads(t, r, 9, "text")
	available(t, l, 100)
}
