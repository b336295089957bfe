package ioreader_test

import (
	"context"
	"io"
	"math"
	"testing"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// bucketOf returns a bucket whose queue is without bound.
func bucketOf(tb testing.TB, limit, tokens int, period time.Duration) *core.TokenBucket {
	tb.Helper()
	return tokenBucket(tb, core.TokenBucketOptions{
		TokenLimit: limit, TokensPerPeriod: tokens, ReplenishmentPeriod: period, QueueLimit: math.MaxInt,
	})
}

// perSecond returns a bucket for a bandwidth.
func perSecond(tb testing.TB, bytes int) *core.TokenBucket {
	tb.Helper()
	return tokenBucket(tb, ioreader.PerSecond(bytes))
}

func tokenBucket(tb testing.TB, o core.TokenBucketOptions) *core.TokenBucket {
	tb.Helper()
	return core.Must(core.NewTokenBucket(o))
}

func semaphore(tb testing.TB, permits int) *core.ConcurrencyLimiter {
	tb.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: math.MaxInt}))
}

// pattern returns n bytes that depend on their position.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return p
}

// meter is a writer that notes when which bytes came.
type meter struct {
	start time.Time
	at    []time.Duration
	sizes []int
	total int
}

func newMeter() *meter { return &meter{start: time.Now()} }

func (m *meter) Write(p []byte) (int, error) {
	m.at = append(m.at, time.Since(m.start))
	m.sizes = append(m.sizes, len(p))
	m.total += len(p)
	return len(p), nil
}

// by returns how many bytes had come by the instant.
func (m *meter) by(at time.Duration) int {
	sum := 0
	for i, n := range m.sizes {
		if m.at[i] <= at {
			sum += n
		}
	}
	return sum
}

// most returns the largest number of bytes that came within any span.
func (m *meter) most(span time.Duration) int {
	most, sum, first := 0, 0, 0
	for i, n := range m.sizes {
		sum += n
		for m.at[i]-m.at[first] >= span {
			sum -= m.sizes[first]
			first++
		}
		most = max(most, sum)
	}
	return most
}

// outcome is what a call in another goroutine returned, and when.
type outcome struct {
	n   int
	err error
	at  time.Time
}

// writing starts a Write in a goroutine.
func writing(w io.Writer, p []byte) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		n, err := w.Write(p)
		done <- outcome{n, err, time.Now()}
	}()
	return done
}

// reading starts a Read in a goroutine.
func reading(r io.Reader, p []byte) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		n, err := r.Read(p)
		done <- outcome{n, err, time.Now()}
	}()
	return done
}

// failing writes or reads a number of bytes, and then fails.
type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) { return f.pass(len(p)) }

func (f *failing) Read(p []byte) (int, error) { return f.pass(len(p)) }

func (f *failing) pass(n int) (int, error) {
	if n <= f.left {
		f.left -= n
		return n, nil
	}
	n, f.left = f.left, 0
	return n, f.err
}

// closer notes that it was closed.
type closer struct {
	io.Reader
	io.Writer
	closed int
	err    error
}

func (c *closer) Close() error {
	c.closed++
	return c.err
}

func canceled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
