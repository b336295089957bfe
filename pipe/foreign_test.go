package pipe_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

// embedding overrides what it embeds: it denies everything.
type embedding struct{ *core.ConcurrencyLimiter }

func (embedding) TryAcquire(int) core.Lease { return core.Reject() }

func (embedding) Acquire(context.Context, int) (core.Lease, error) {
	return core.Reject(), core.Reject().Err()
}

func TestALimiterThatEmbedsOneOfCoreIsAskedItself(t *testing.T) {
	t.Parallel()
	_, w := newPipe(t, pipe.Options{WriteLimiter: embedding{concurrency(t, 100, 0)}})
	n, err := w.Write([]byte("a"))
	assert.Zero(t, n)
	assert.ErrorIs(t, err, core.ErrRejected)
}

// keeping keeps the contexts that it was asked with.
type keeping struct {
	core.Limiter

	kept []context.Context
}

func (k *keeping) Acquire(ctx context.Context, n int) (core.Lease, error) {
	k.kept = append(k.kept, ctx)
	return k.Limiter.Acquire(ctx, n)
}

func TestAContextThatALimiterKeepsIsOfItsCallOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &keeping{Limiter: concurrency(t, 1000, 0)}
		_, w := newPipe(t, pipe.Options{WriteLimiter: l})
		type key struct{}
		for i := range 3 {
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, i), time.Hour)
			_, err := w.WriteContext(ctx, []byte("text"))
			require.NoError(t, err)
			cancel()
		}
		require.Len(t, l.kept, 3)
		for i, kept := range l.kept {
			<-kept.Done()
			assert.Equal(t, context.Canceled, kept.Err())
			assert.Equal(t, i, kept.Value(key{}))
		}
	})
}

// polling waits for permits by asking its context again and again.
type polling struct{ core.Limiter }

func (p polling) Acquire(ctx context.Context, n int) (core.Lease, error) {
	for ctx.Err() == nil {
		if l := p.Limiter.TryAcquire(n); l.Acquired() {
			return l, nil
		}
		time.Sleep(time.Second)
	}
	return core.Fail(ctx.Err()), ctx.Err()
}

func TestALimiterThatPollsItsContextIsEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(r *pipe.Reader, w *pipe.Writer)
		want error
	}{
		"by the writer's Close": {func(_ *pipe.Reader, w *pipe.Writer) { _ = w.Close() }, io.ErrClosedPipe},
		"by the reader's Close": {func(r *pipe.Reader, _ *pipe.Writer) { _ = r.CloseWithError(errBroken) }, errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				full := concurrency(t, 1, 0)
				require.True(t, full.TryAcquire(1).Acquired())
				r, w := newPipe(t, pipe.Options{WriteLimiter: polling{full}})
				done := make(chan error, 1)
				go func() {
					_, err := w.Write([]byte("a"))
					done <- err
				}()
				synctest.Wait()
				c.end(r, w)
				assert.Equal(t, c.want, <-done)
			})
		})
	}
	t.Run("by a deadline", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			full := concurrency(t, 1, 0)
			lease := full.TryAcquire(1)
			a, b, err := pipe.Conns(pipe.Options{WriteLimiter: polling{full}}, pipe.Options{})
			require.NoError(t, err)
			begun := time.Now()
			require.NoError(t, a.SetWriteDeadline(begun.Add(1500*time.Millisecond)))
			_, err = a.Write([]byte("a"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Equal(t, 2*time.Second, time.Since(begun))
			// The next deadline is another.
			require.NoError(t, a.SetWriteDeadline(time.Time{}))
			lease.Release()
			writes(t, a, "a")
			reads(t, b, 9, "a")
		})
	})
}

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

func TestADeadlineThatIsMovedAtItsInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow, err := core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Minute, QueueLimit: math.MaxInt,
		})
		require.NoError(t, err)
		a, b, err := pipe.Conns(pipe.Options{WriteLimiter: slow}, pipe.Options{})
		require.NoError(t, err)
		defer b.Close()
		for range 50 {
			require.NoError(t, a.SetWriteDeadline(time.Now().Add(time.Second)))
			_, err := a.Write([]byte("ab"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.NoError(t, a.SetWriteDeadline(time.Now().Add(time.Second)))
			time.Sleep(time.Second) // the timer runs now, or has run
			require.NoError(t, a.SetWriteDeadline(time.Time{}))
			_, err = a.Write([]byte("c"))
			require.NoError(t, err)
		}
	})
}

func TestWhatIsPrinted(t *testing.T) {
	t.Parallel()
	r, w := newPipe(t, pipe.Options{WriteLimiter: &keeping{}})
	assert.Equal(t, "pipe reader, unlimited, 0 bytes buffered", r.String())
	assert.Equal(t, "pipe writer, limited by *pipe_test.keeping", w.String())
	assert.Equal(t, "pipe reader, closed", new(pipe.Reader).String())
	assert.Equal(t, "pipe writer, closed", new(pipe.Writer).String())
	a, _, err := pipe.Conns(pipe.Options{}, pipe.Options{})
	require.NoError(t, err)
	assert.Equal(t, "pipe connection, reading unlimited, writing unlimited", fmt.Sprint(a))
}
