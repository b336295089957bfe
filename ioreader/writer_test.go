package ioreader_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/ioreader"
)

func TestCallsTakeTheirTimeToTheNanosecond(t *testing.T) {
	for name, c := range map[string]struct {
		limit, tokens int
		period        time.Duration
		bytes         int
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
		testkit.Bubble(t, name, func(t *testing.T) {
			sink := newMeter()
			l := bucketOf(t, c.limit, c.tokens, c.period)
			n, err := ioreader.NewWriter(t.Context(), sink, l).Write(pattern(c.bytes))
			require.NoError(t, err)
			require.Equal(t, c.bytes, n)
			require.Equal(t, c.bytes, sink.total)
			require.Equal(t, c.takes, time.Since(sink.start))
			require.Zero(t, l.Statistics().Rejected)

			start := time.Now()
			l = bucketOf(t, c.limit, c.tokens, c.period)
			got, err := io.ReadAll(ioreader.NewReader(t.Context(), bytes.NewReader(pattern(c.bytes)), l))
			require.NoError(t, err)
			require.True(t, bytes.Equal(pattern(c.bytes), got))
			require.Equal(t, c.takes, time.Since(start))
			require.Zero(t, l.Statistics().Rejected)
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

func TestWriteWithoutALimiterIsOneWrite(t *testing.T) {
	sink := newMeter()
	n, err := ioreader.NewWriter(t.Context(), sink, nil).Write(make([]byte, 5<<20))
	require.NoError(t, err)
	require.Equal(t, 5<<20, n)
	require.Equal(t, []int{5 << 20}, sink.sizes)
}

func TestCallsEndImmediately(t *testing.T) {
	type stream interface{ Close() error }
	for name, c := range map[string]struct {
		end  func(s stream, cancel context.CancelFunc, l *core.TokenBucket)
		want error
	}{
		"when it is closed":            {func(s stream, _ context.CancelFunc, _ *core.TokenBucket) { _ = s.Close() }, io.ErrClosedPipe},
		"when its context is canceled": {func(_ stream, cancel context.CancelFunc, _ *core.TokenBucket) { cancel() }, context.Canceled},
		"when the limiter is closed":   {func(_ stream, _ context.CancelFunc, l *core.TokenBucket) { _ = l.Close() }, core.ErrClosed},
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := bucketOf(t, 4, 1, time.Hour)
			w := ioreader.NewWriter(ctx, newMeter(), l)
			start := time.Now()
			done := writing(w, make([]byte, 10))
			synctest.Wait()
			require.Positive(t, l.Statistics().Queued)
			c.end(w, cancel, l)
			require.Equal(t, outcome{4, c.want, start}, <-done)
			require.Zero(t, l.Statistics().Queued)
			n, err := w.Write([]byte("more"))
			require.Zero(t, n)
			require.Equal(t, c.want, err)
		})
		testkit.Bubble(t, "a Read "+name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := bucketOf(t, 1, 1, time.Hour)
			r := ioreader.NewReader(ctx, strings.NewReader("ab"), l)
			_, err := r.Read(make([]byte, 1))
			require.NoError(t, err)
			start := time.Now()
			done := reading(r, make([]byte, 1))
			synctest.Wait()
			c.end(r, cancel, l)
			require.Equal(t, outcome{0, c.want, start}, <-done)
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

// The permits of bytes that did not pass are refunded, and the error is that of the stream underneath.
func TestBytesThatDidNotPassAreRefunded(t *testing.T) {
	cause := errors.New("disk full")
	write := func(w io.Writer, err error) func(core.Limiter) (int64, error, error) {
		return func(l core.Limiter) (int64, error, error) {
			n, got := ioreader.NewWriter(t.Context(), w, l).Write(make([]byte, 100))
			return int64(n), got, err
		}
	}
	read := func(r io.Reader, err error) func(core.Limiter) (int64, error, error) {
		return func(l core.Limiter) (int64, error, error) {
			n, got := ioreader.NewReader(t.Context(), r, l).Read(make([]byte, 100))
			return int64(n), got, err
		}
	}
	move := func(w io.Writer, r io.Reader) func(core.Limiter) (int64, error, error) {
		return func(l core.Limiter) (int64, error, error) {
			n, got := ioreader.Copy(t.Context(), w, r, ioreader.CopyOptions{Limiter: l})
			return n, got, cause
		}
	}
	for name, c := range map[string]struct {
		call   func(core.Limiter) (n int64, got, want error)
		passed int64
	}{
		"a Write that fails":     {write(&failing{30, cause}, cause), 30},
		"a short Write":          {write(&failing{30, nil}, io.ErrShortWrite), 30},
		"a Read that fails":      {read(&failing{30, cause}, cause), 30},
		"a short Read":           {read(strings.NewReader("seven77"), nil), 7},
		"the end":                {read(strings.NewReader(""), io.EOF), 0},
		"a Copy from what fails": {move(io.Discard, &failing{30, cause}), 30},
		"a Copy to what fails":   {move(&failing{30, cause}, bytes.NewReader(make([]byte, 100))), 30},
		"a Writer over a Writer": {func(l core.Limiter) (int64, error, error) {
			return write(ioreader.NewWriter(t.Context(), &failing{err: cause}, l), cause)(l)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := bucketOf(t, 1<<20, 1, time.Hour)
			n, err, want := c.call(l)
			require.Equal(t, want, err)
			require.Equal(t, c.passed, n)
			require.EqualValues(t, 1<<20-c.passed, l.Available())
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

func TestAnEmptyCallTakesNothing(t *testing.T) {
	sink := newMeter()
	l := bucketOf(t, 1, 1, time.Hour)
	n, err := ioreader.NewWriter(t.Context(), sink, l).Write(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, []int{0}, sink.sizes, "the Write reaches the writer underneath")
	n, err = ioreader.NewReader(t.Context(), strings.NewReader("text"), l).Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
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
		"nil limiter": func() error {
			_, err := ioreader.NewWriter(t.Context(), io.Discard, (*core.TokenBucket)(nil)).Write([]byte("x"))
			return err
		},
		"nil limiter of a Reader": func() error {
			_, err := ioreader.NewReader(t.Context(), bytes.NewReader(nil), (*core.Switch)(nil)).Read(make([]byte, 1))
			return err
		},
		"deadlines":  func() error { return r.SetReadDeadline(time.Time{}) },
		"nil writer": func() error { _, err := ioreader.NewWriter(t.Context(), nil, nil).Write([]byte("x")); return err },
		"nil reader": func() error { _, err := ioreader.NewReader(t.Context(), nil, nil).Read(make([]byte, 1)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := call()
			require.EqualError(t, err, "ioreader: Reader or Writer was not created with NewReader or NewWriter, or with a nil argument")
			require.ErrorIs(t, err, core.ErrClosed)
			require.ErrorIs(t, err, io.ErrClosedPipe)
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
