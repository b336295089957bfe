package pipe_test

import (
	"context"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/pipe"
)

// Each side waits for the rate of its limiter, also for more bytes than its limit.
func TestTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		writing, reading := bucket(t, 10), bucket(t, 10)
		r, w := newPipe(t, pipe.Options{WriteLimiter: writing, ReadLimiter: reading})
		start := time.Now()
		writes(t, w, "0123456789abcdefghijABCDE") // 10 now, 10 after a second, 5 after two
		assert.Equal(t, 2*time.Second, time.Since(start))
		available(t, writing, 5)
		assert.Zero(t, writing.Statistics().Rejected)
		for i, want := range []string{"0123456789", "abcdefghij", "ABCDE"} {
			reads(t, r, 64, want)
			assert.Equal(t, time.Duration(2+i)*time.Second, time.Since(start))
		}
		available(t, reading, 5)
	})
}

func TestARefusalEndsTheCall(t *testing.T) {
	t.Parallel()
	l := concurrency(t, 4, 0)
	r, w := newPipe(t, pipe.Options{WriteLimiter: strange{l}})
	n, err := w.Write([]byte("abcdefghij"))
	assert.Equal(t, 4, n)
	var rejected *core.RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, "queue limit reached", rejected.Reason)
	reads(t, r, 64, "abcd")

	l = concurrency(t, 4, 0)
	taken := l.TryAcquire(4)
	r, w = newPipe(t, pipe.Options{ReadLimiter: strange{l}})
	writes(t, w, "abcdef")
	_, err = r.Read(make([]byte, 2))
	require.ErrorAs(t, err, &rejected)
	taken.Release()
	require.NoError(t, w.Close())
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "abcdef", string(all)) // no byte was lost
	available(t, l, 4)
}

// limiterKinds are limiters of 4 bytes that make the fifth wait: forever, or an hour.
func limiterKinds(t *testing.T) map[string]core.Limiter {
	t.Helper()
	slow, err := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: 4, TokensPerPeriod: 4, ReplenishmentPeriod: time.Hour, QueueLimit: math.MaxInt,
	})
	require.NoError(t, err)
	chain := core.Must(core.Chain(slow, core.Unlimited()))
	return map[string]core.Limiter{
		"concurrency": concurrency(t, 4, math.MaxInt),
		"bucket":      slow,
		"chain":       chain,
		"foreign":     foreign{concurrency(t, 4, math.MaxInt)},
	}
}

// foreign is a limiter that is a Limiter only.
type foreign struct{ core.Limiter }

func TestAHopelessDeadlineIsTheLimitersToRefuse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w := newPipe(t, pipe.Options{WriteLimiter: bucket(t, 4)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		n, err := w.WriteContext(ctx, []byte("abcdef"))
		assert.Equal(t, 4, n)
		assert.ErrorIs(t, err, core.ErrRejected)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, time.Since(start))
	})
}

func TestALimiterThatIsChangedWhileAWriteWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 10, 100)
		r, w := newPipe(t, pipe.Options{WriteLimiter: l})
		writes(t, w, "0123456789")
		go func() {
			writes(t, w, "abcdefgh")
			assert.NoError(t, w.Close())
		}()
		synctest.Wait()
		require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 3, QueueLimit: 100}))
		synctest.Wait()
		got := ""
		for buf := make([]byte, 64); len(got) < 18; {
			n, err := r.Read(buf)
			require.NoError(t, err)
			got += string(buf[:n])
			synctest.Wait()
			assert.LessOrEqual(t, r.Buffered(), 3)
		}
		assert.Equal(t, "0123456789abcdefgh", got)
		available(t, l, 3)

		require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 20}))
	})
}

// meanwhile is a limiter that does something after each grant.
type meanwhile struct {
	*core.TokenBucket

	do func()
}

func (l meanwhile) Acquire(ctx context.Context, n int) (core.Lease, error) {
	lease, err := l.TokenBucket.Acquire(ctx, n)
	l.do()
	return lease, err
}

func TestUnusedPermitsAreRefunded(t *testing.T) {
	t.Parallel()
	b := bucket(t, 10)
	var r *pipe.Reader
	r, w := newPipe(t, pipe.Options{WriteLimiter: meanwhile{b, func() { _ = r.CloseWithError(errBroken) }}})
	n, err := w.Write([]byte("abcd"))
	assert.Zero(t, n)
	assert.Equal(t, errBroken, err)
	available(t, b, 10)
}

// TestALargeWriteInSlicesReachesAWaitingReader has a writer throttled in the midst of
// filling a reader's buffer: the reader gets the bytes that have arrived.
func TestALargeWriteInSlicesReachesAWaitingReader(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"bucket", "chain"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var l core.Limiter = bucket(t, 10<<10)
				if kind == "chain" {
					l = core.Must(core.Chain(l))
				}
				r, w := newPipe(t, pipe.Options{WriteLimiter: l})
				start := time.Now()
				got := make(map[time.Duration]int)
				go func() {
					defer r.Close()
					for buf := make([]byte, 64<<10); ; {
						n, err := r.Read(buf)
						if err != nil {
							return
						}
						got[time.Since(start)] += n
					}
				}()
				synctest.Wait()
				_, err := w.Write(make([]byte, 25<<10))
				assert.NoError(t, err)
				assert.NoError(t, w.Close())
				synctest.Wait()
				assert.Len(t, got, 3)
				for i, want := range []int{10 << 10, 10 << 10, 5 << 10} {
					assert.InDelta(t, want, got[time.Duration(i)*time.Second], 100, "less than a slice of 5 ms is left over")
				}
			})
		})
	}
}

func TestTheSizeOfTheBuffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			options pipe.Options
			want    int
		}{
			{pipe.Options{}, 64 << 10},
			{pipe.Options{WriteLimiter: core.Unlimited(), ReadLimiter: core.Unlimited()}, 64 << 10},
			{pipe.Options{WriteLimiter: strange{concurrency(t, 80_000, math.MaxInt)}}, 80_000},
			{pipe.Options{Buffer: 1000, WriteLimiter: strange{concurrency(t, 80_000, math.MaxInt)}}, 1000},
			{pipe.Options{Buffer: 1000, WriteLimiter: core.NewSwitch(bucket(t, 1<<20))}, 1000},
			{pipe.Options{Buffer: 1000, WriteLimiter: core.NewSwitch(concurrency(t, 5000, 0))}, 5000},
			{pipe.Options{Buffer: 1000, WriteLimiter: core.WithReason(concurrency(t, 5000, 0), "full")}, 5000},
			{pipe.Options{Buffer: 1000, WriteLimiter: core.Shadow(concurrency(t, 5000, 0))}, 1000},
			{pipe.Options{Buffer: 1}, 1},
			{pipe.Options{Buffer: 3}, 3},
			{pipe.Options{Buffer: 1 << 20}, 1 << 20},
			{pipe.Options{Buffer: 1000, WriteLimiter: bucket(t, 1<<20)}, 1000},
			{pipe.Options{Buffer: 1000, WriteLimiter: concurrency(t, 5000, 0)}, 5000},
			{pipe.Options{Buffer: 1000, WriteLimiter: concurrency(t, 10, 0)}, 10},
			{pipe.Options{WriteLimiter: concurrency(t, 1<<20, 0)}, 1 << 20},
			{pipe.Options{WriteLimiter: core.Must(core.Chain(bucket(t, 1<<20), concurrency(t, 5000, 0)))}, 5000},
			{pipe.Options{WriteLimiter: core.Must(core.Chain(concurrency(t, 3000, 0), concurrency(t, 5000, 0)))}, 3000},
		} {
			r, w := newPipe(t, c.options)
			for _, size := range []int{1300, 1} { // the last of each waits until it gives up
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				var err error
				for err == nil {
					_, err = w.WriteContext(ctx, make([]byte, size))
				}
				cancel()
			}
			assert.Equal(t, c.want, r.Buffered(), "%+v", c.options)
			go func() {
				writes(t, w, string(make([]byte, 100_000)))
				assert.NoError(t, w.Close())
			}()
			all, err := io.ReadAll(r)
			assert.NoError(t, err)
			assert.Equal(t, c.want+100_000, len(all)) //nolint:testifylint // Len prints all of them
		}
	})
	_, _, err := pipe.New(pipe.Options{Buffer: -1})
	assert.EqualError(t, err, "pipe: Options.Buffer = -1, want at least 0")
	_, _, err = pipe.Conns(pipe.Options{Buffer: -1}, pipe.Options{Buffer: -2})
	assert.EqualError(t, err, "pipe: a.Buffer = -1, want at least 0\npipe: b.Buffer = -2, want at least 0")
}

// panicsOnDone is a context whose Done panics.
type panicsOnDone struct{ context.Context }

func (panicsOnDone) Done() <-chan struct{} { panic("Done") }

// TestAContextThatPanics loses no permits.
func TestAContextThatPanics(t *testing.T) {
	t.Parallel()
	l := concurrency(t, 64<<10, 0)
	r, w := newPipe(t, pipe.Options{WriteLimiter: l})
	assert.Panics(t, func() { _, _ = w.WriteContext(panicsOnDone{t.Context()}, make([]byte, 100_000)) })
	assert.NoError(t, r.Close())
	available(t, l, 64<<10)
}

// panicsAtItsEnd is a context that panics when a context derived from it ends.
type panicsAtItsEnd struct{ *testkit.Context }

func (panicsAtItsEnd) AfterFunc(func()) func() bool { return func() bool { panic("stop") } }

// TestCloseOfAContextThatPanics returns the permits of the bytes in the pipe, and ends the other Writes.
func TestCloseOfAContextThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		held := concurrency(t, 10, 100)
		for _, l := range []core.Limiter{held, core.Must(core.Chain(held))} {
			r, w := newPipe(t, pipe.Options{WriteLimiter: l})
			ended := make(chan error)
			go func() {
				defer func() { ended <- nil }()
				_, _ = w.WriteContext(panicsAtItsEnd{testkit.NewContext()}, make([]byte, 100))
			}()
			synctest.Wait()
			go func() {
				_, err := w.Write(make([]byte, 100))
				ended <- err
			}()
			synctest.Wait()
			assert.NoError(t, r.Close()) // the wait in core's limiters needs no derived context
			for range 2 {
				assert.Contains(t, []error{nil, io.ErrClosedPipe}, <-ended)
			}
			available(t, held, 10)
		}
	})
}

// TestASwitchIsFollowed has a Switch on both sides that is set while the pipe is in use.
func TestASwitchIsFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		held := concurrency(t, 8, 0)
		reading := core.NewSwitch(held)
		r, w := newPipe(t, pipe.Options{WriteLimiter: core.NewSwitch(held), ReadLimiter: reading})
		send := func(n int) {
			go func() {
				for range n {
					writes(t, w, "0123456789")
				}
			}()
		}
		receive := func(n int) time.Duration {
			start := time.Now()
			_, err := io.ReadFull(r, make([]byte, n))
			assert.NoError(t, err)
			return time.Since(start)
		}
		send(5)
		assert.Zero(t, receive(50))
		reading.Set(bucket(t, 10))
		send(5)
		assert.GreaterOrEqual(t, receive(50), 4*time.Second)
		reading.Set(nil)
		send(5)
		assert.Zero(t, receive(50))
		reading.Set(held)
		send(5)
		assert.Zero(t, receive(50))
		available(t, held, 8)
	})
}
