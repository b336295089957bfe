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

// explosive is a limiter that panics when armed, at its next Acquire or at its next Statistics.
type explosive struct {
	core.Limiter

	acquire, statistics bool
}

func (e *explosive) Acquire(ctx context.Context, n int) (core.Lease, error) {
	explode(&e.acquire)
	return e.Limiter.Acquire(ctx, n)
}

func (e *explosive) Statistics() core.Statistics {
	explode(&e.statistics)
	return e.Limiter.(core.Reporter).Statistics()
}

func explode(armed *bool) {
	if *armed {
		*armed = false
		panic("limiter")
	}
}

// A limiter may panic before it has granted the permits, or after it: no permit and no byte is lost.
func TestALimiterThatPanicsLeavesThePipeUsable(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		l := concurrency(t, 100, 0)
		limiter := &explosive{Limiter: l}
		r, w := newPipe(t, pipe.Options{WriteLimiter: limiter})
		limiter.acquire, limiter.statistics = !after, after
		assert.Panics(t, func() { _, _ = w.Write([]byte("lost")) })
		available(t, l, 100)
		writes(t, w, "text")
		reads(t, r, 9, "text")
		available(t, l, 100)

		r, w = newPipe(t, pipe.Options{ReadLimiter: limiter})
		writes(t, w, "text")
		limiter.acquire, limiter.statistics = !after, after
		assert.Panics(t, func() { _, _ = r.Read(make([]byte, 9)) })
		available(t, l, 100)
		reads(t, r, 9, "text")
		available(t, l, 100)
	}
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
