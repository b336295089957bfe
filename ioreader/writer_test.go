package ioreader_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

func TestWriteTakesItsTimeToTheNanosecond(t *testing.T) {
	for name, c := range map[string]struct {
		limit, tokens int
		period        time.Duration
		write         int
		takes         time.Duration
	}{
		"within the burst":              {100, 1, time.Millisecond, 100, 0},
		"one byte over":                 {100, 1, time.Millisecond, 101, time.Millisecond},
		"ten times the limit":           {100, 1, time.Millisecond, 1000, 900 * time.Millisecond},
		"tokens in lumps":               {100, 50, time.Second, 225, 3 * time.Second},
		"a limit of one":                {1, 1, time.Millisecond, 33, 32 * time.Millisecond},
		"a rate of a byte each ns":      {1_000_000, 1, 1, 2_000_000, time.Millisecond},
		"a limit that is all there are": {math.MaxInt, 1, time.Hour, 1 << 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := newMeter()
				l := bucketOf(t, c.limit, c.tokens, c.period)
				n, err := ioreader.NewWriter(t.Context(), sink, l).Write(pattern(c.write))
				require.NoError(t, err)
				require.Equal(t, c.write, n)
				require.Equal(t, c.write, sink.total)
				require.Equal(t, c.takes, time.Since(sink.start))
				require.Zero(t, l.Statistics().Rejected)
			})
		})
	}
}

func TestALargeWriteIsSpreadOverItsTime(t *testing.T) {
	for _, rate := range []int{100_000, 8 << 20, 1_000_000_007} {
		synctest.Test(t, func(t *testing.T) {
			sink := newMeter()
			w := ioreader.NewWriter(t.Context(), sink, perSecond(t, rate))
			_, err := w.Write(make([]byte, min(4<<20, rate)))
			require.NoError(t, err)
			// From the burst on it keeps to the line, within a slice, at every instant.
			burst := max(rate/100, 1460)
			require.LessOrEqual(t, sink.most(10*time.Millisecond), burst+rate/100)
			for at := 10 * time.Millisecond; at < time.Since(sink.start); at += 10 * time.Millisecond {
				line := burst + int(float64(rate)*at.Seconds())
				require.InDelta(t, line, sink.by(at), max(float64(rate)/200, 1460))
			}
		})
	}
}

func TestTheFirstSecondIsAtMostAHundredthOrAPacketOver(t *testing.T) {
	for _, rate := range []int{2000, 100_000, 1_234_567, 8 << 20} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			sink := newMeter()
			_, err := ioreader.NewWriter(ctx, sink, perSecond(t, rate)).Write(make([]byte, 4*rate))
			require.Error(t, err)
			first := sink.by(time.Second)
			require.LessOrEqual(t, first, rate+max(rate/100, 1460))
			require.GreaterOrEqual(t, first, rate)
			second := sink.by(2*time.Second) - first
			require.InDelta(t, rate, second, max(float64(rate)/100, 1460))
		})
	}
}

func TestAfterIdlingThereIsNoMoreThanTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := ioreader.NewWriter(t.Context(), io.Discard, perSecond(t, 1000))
		_, err := w.Write(make([]byte, 2000))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		start := time.Now()
		_, err = w.Write(make([]byte, 1480))
		require.NoError(t, err)
		require.Equal(t, 20*time.Millisecond, time.Since(start))
	})
}

func TestWriteWithoutALimiterIsOneWrite(t *testing.T) {
	for name, l := range map[string]core.Limiter{"nil": nil, "a nil pointer": (*core.TokenBucket)(nil)} {
		t.Run(name, func(t *testing.T) {
			sink := newMeter()
			n, err := ioreader.NewWriter(t.Context(), sink, l).Write(make([]byte, 5<<20))
			require.NoError(t, err)
			require.Equal(t, 5<<20, n)
			require.Equal(t, []int{5 << 20}, sink.sizes)
		})
	}
}

func TestWriteEndsImmediately(t *testing.T) {
	cause := errors.New("underneath")
	for name, c := range map[string]struct {
		end  func(w *ioreader.Writer, cancel context.CancelFunc, l *core.TokenBucket)
		want error
	}{
		"when it is closed":            {func(w *ioreader.Writer, _ context.CancelFunc, _ *core.TokenBucket) { _ = w.Close() }, io.ErrClosedPipe},
		"when its context is canceled": {func(_ *ioreader.Writer, cancel context.CancelFunc, _ *core.TokenBucket) { cancel() }, context.Canceled},
		"when the limiter is closed":   {func(_ *ioreader.Writer, _ context.CancelFunc, l *core.TokenBucket) { _ = l.Close() }, core.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				l := bucketOf(t, 4, 1, time.Hour)
				under := &closer{Writer: newMeter(), err: cause}
				w := ioreader.NewWriter(ctx, under, l)
				start := time.Now()
				done := writing(w, make([]byte, 10))
				synctest.Wait()
				require.Positive(t, l.Statistics().Queued)
				c.end(w, cancel, l)
				got := <-done
				require.Equal(t, 4, got.n)
				require.Equal(t, c.want, got.err)
				require.Equal(t, start, got.at)
				require.Zero(t, l.Statistics().Queued)
				n, err := w.Write([]byte("more"))
				require.Zero(t, n)
				require.Equal(t, c.want, err)
			})
		})
	}
}

func TestADoneContextWritesNothing(t *testing.T) {
	for name, l := range map[string]core.Limiter{"throttled": bucketOf(t, 100, 1, time.Second), "unlimited": nil} {
		t.Run(name, func(t *testing.T) {
			sink := newMeter()
			n, err := ioreader.NewWriter(canceled(t.Context()), sink, l).Write([]byte("text"))
			require.Zero(t, n)
			require.Equal(t, context.Canceled, err)
			require.Zero(t, sink.total)
		})
	}
}

func TestCloseClosesTheUnderlyingStream(t *testing.T) {
	cause := errors.New("no space left")
	under := &closer{Writer: io.Discard, Reader: bytes.NewReader(nil), err: cause}
	w := ioreader.NewWriter(t.Context(), under, nil)
	require.Equal(t, cause, w.Close())
	require.NoError(t, w.Close())
	require.Equal(t, 1, under.closed)
	r := ioreader.NewReader(t.Context(), under, nil)
	require.Equal(t, cause, r.Close())
	require.NoError(t, r.Close())
	require.Equal(t, 2, under.closed)
	require.NoError(t, ioreader.NewWriter(t.Context(), newMeter(), nil).Close())
}

func TestPermitsOfUnwrittenBytesAreRefunded(t *testing.T) {
	cause := errors.New("disk full")
	for name, c := range map[string]struct {
		under io.Writer
		want  error
	}{
		"an error":      {&failing{30, cause}, cause},
		"a short write": {&failing{30, nil}, io.ErrShortWrite},
	} {
		t.Run(name, func(t *testing.T) {
			l := bucketOf(t, 1000, 1, time.Hour)
			n, err := ioreader.NewWriter(t.Context(), c.under, l).Write(make([]byte, 100))
			require.Equal(t, c.want, err)
			require.Equal(t, 30, n)
			require.Equal(t, 970, l.Available())
		})
	}
}

func TestAPanicUnderneathGivesThePermitsBack(t *testing.T) {
	rate, held := bucketOf(t, 1000, 1, time.Hour), semaphore(t, 1000)
	for _, l := range []core.Limiter{rate, held} {
		w := ioreader.NewWriter(t.Context(), panicking{}, l)
		for range 2 {
			require.Panics(t, func() { _, _ = w.Write([]byte("text")) })
			require.Equal(t, 1000, l.Available())
		}
	}
}

type panicking struct{}

func (panicking) Write([]byte) (int, error) { panic("underneath") }

func TestALimiterThatRefusesEndsTheCall(t *testing.T) {
	l := tokenBucket(t, core.TokenBucketOptions{
		Name: "small", TokenLimit: 65_536, TokensPerPeriod: 65_536, ReplenishmentPeriod: 48 * time.Hour,
	})
	sink := newMeter()
	w := ioreader.NewWriter(t.Context(), sink, strange{l})
	n, err := w.Write(make([]byte, 100_000))
	var rejected *core.RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Equal(t, "small", rejected.Limiter)
	require.Equal(t, sink.total, n)
	require.InDelta(t, 65_536, n, 8192) // whole slices, of an eighth of the limit
}

func TestAHopelessDeadlineIsRejectedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := ioreader.NewWriter(ctx, io.Discard, bucketOf(t, 10, 1, time.Hour))
		start := time.Now()
		n, err := w.Write(make([]byte, 25))
		require.ErrorIs(t, err, core.ErrRejected)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 10, n)
		require.Equal(t, start, time.Now())
	})
}

func TestALimiterThatShrinksIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucketOf(t, 1000, 1000, time.Second)
		sink := newMeter()
		w := ioreader.NewWriter(t.Context(), sink, l)
		_, err := w.Write(make([]byte, 1000))
		require.NoError(t, err)
		require.NoError(t, l.Update(core.TokenBucketOptions{
			TokenLimit: 4, TokensPerPeriod: 4, ReplenishmentPeriod: time.Second, QueueLimit: math.MaxInt,
		}))
		// Shrinking leaves no debt: an empty bucket is empty.
		_, err = w.Write(make([]byte, 40))
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, time.Since(sink.start))
	})
}

func TestALimiterThatShrinksUnderAWaitingSliceIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := semaphore(t, 1000)
		hog := l.TryAcquire(1000)
		w := ioreader.NewWriter(t.Context(), io.Discard, l)
		done := writing(w, make([]byte, 100))
		synctest.Wait()
		require.Equal(t, 100, l.Statistics().Queued)
		require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 3, QueueLimit: 3}))
		synctest.Wait()
		require.Equal(t, 1, l.Statistics().Queued)
		hog.Release()
		require.Equal(t, 100, (<-done).n)
		require.Equal(t, 3, l.Available())
	})
}

func TestALimiterThatGrowsIsObeyedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucketOf(t, 10, 1, time.Hour)
		w := ioreader.NewWriter(t.Context(), io.Discard, l)
		start := time.Now()
		done := writing(w, make([]byte, 1000))
		synctest.Wait()
		require.NoError(t, l.Update(core.TokenBucketOptions{
			TokenLimit: 2000, TokensPerPeriod: 2000, ReplenishmentPeriod: time.Second, QueueLimit: math.MaxInt,
		}))
		require.Equal(t, start.Add(time.Second), (<-done).at) // growing mints no tokens
	})
}

func TestAConcurrencyLimiterBoundsTheBytesOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := semaphore(t, 8)
		r, under := io.Pipe()
		w := ioreader.NewWriter(t.Context(), under, l)
		done := writing(w, []byte("0123456789"))
		synctest.Wait()
		onWay := 8 - l.Available()
		require.Positive(t, onWay)
		got := make([]byte, 10)
		_, err := io.ReadFull(r, got)
		require.NoError(t, err)
		require.Equal(t, "0123456789", string(got))
		require.NoError(t, (<-done).err)
		require.Equal(t, 8, l.Available())
	})
}

func TestAChainBoundsBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, rate := semaphore(t, 100), bucketOf(t, 100, 1, time.Millisecond)
		chain, err := core.Chain(held, rate)
		require.NoError(t, err)
		start := time.Now()
		_, err = ioreader.NewWriter(t.Context(), io.Discard, chain).Write(make([]byte, 1000))
		require.NoError(t, err)
		require.Equal(t, 900*time.Millisecond, time.Since(start))
		require.Equal(t, 100, held.Available())
		require.Zero(t, rate.Available())
	})
}

func TestAnEmptyWriteReachesTheUnderlyingWriter(t *testing.T) {
	sink := newMeter()
	l := bucketOf(t, 1, 1, time.Hour)
	n, err := ioreader.NewWriter(t.Context(), sink, l).Write(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, []int{0}, sink.sizes)
	require.Equal(t, 1, l.Available())
}

func TestWritesOfSeveralGoroutinesStayWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sink bytes.Buffer
		w := ioreader.NewWriter(t.Context(), &sink, bucketOf(t, 3, 1, time.Millisecond))
		a, b := writing(w, bytes.Repeat([]byte("a"), 50)), writing(w, bytes.Repeat([]byte("b"), 50))
		require.NoError(t, (<-a).err)
		require.NoError(t, (<-b).err)
		require.Contains(t, []int{0, 50}, bytes.IndexByte(sink.Bytes(), 'a'))
		require.Equal(t, 50, bytes.Count(sink.Bytes()[:50], sink.Bytes()[:1]))
	})
}

func TestTheZeroValuesRefuse(t *testing.T) {
	var w ioreader.Writer
	var r ioreader.Reader
	for name, call := range map[string]func() error{
		"Write":        func() error { _, err := w.Write([]byte("x")); return err },
		"ReadFrom":     func() error { _, err := w.ReadFrom(bytes.NewReader(nil)); return err },
		"Writer.Close": w.Close,
		"Read":         func() error { _, err := r.Read(make([]byte, 1)); return err },
		"WriteTo":      func() error { _, err := r.WriteTo(io.Discard); return err },
		"Reader.Close": r.Close,
		"nil pointer": func() error {
			_, err := ioreader.NewWriter(t.Context(), (*bytes.Buffer)(nil), nil).Write([]byte("x"))
			return err
		},
		"nil file": func() error {
			_, err := ioreader.NewReader(t.Context(), (*bytes.Reader)(nil), nil).Read(make([]byte, 1))
			return err
		},
		"nil writer": func() error { _, err := ioreader.NewWriter(t.Context(), nil, nil).Write([]byte("x")); return err },
		"nil reader": func() error { _, err := ioreader.NewReader(t.Context(), nil, nil).Read(make([]byte, 1)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, call(), "ioreader: not made by its constructor, or made with a nil argument")
		})
	}
}

// ample has permits for every benchmark.
func ample(tb testing.TB) *core.TokenBucket {
	tb.Helper()
	return bucketOf(tb, 1<<30, 1<<20, 1)
}

func TestAllocations(t *testing.T) {
	p := make([]byte, 32<<10)
	for name, l := range map[string]core.Limiter{"bucket": ample(t), "semaphore": semaphore(t, 1<<20), "unlimited": nil} {
		w := ioreader.NewWriter(t.Context(), io.Discard, l)
		src := bytes.NewReader(p)
		r := ioreader.NewReader(t.Context(), src, l)
		require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = w.Write(p) }), "write, %s", name)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			src.Reset(p)
			_, _ = r.Read(p)
		}), "read, %s", name)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			src.Reset(p[:100])
			_, _ = r.Read(p)
		}), "short read, %s", name)
	}
}
