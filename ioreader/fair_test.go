package ioreader_test

import (
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// shares has writers of these sizes write as much as they can for five seconds, and returns the part of
// each.
func shares(t *testing.T, l core.Limiter, sizes ...int) []float64 {
	t.Helper()
	return sharesOver(t, 5*time.Second, l, sizes...)
}

func sharesOver(t *testing.T, d time.Duration, l core.Limiter, sizes ...int) []float64 {
	t.Helper()
	sinks, writers := make([]meter, len(sizes)), make([]*ioreader.Writer, len(sizes))
	ended := make(chan error, len(sizes))
	for i, size := range sizes {
		writers[i] = ioreader.NewWriter(t.Context(), &sinks[i], l)
		go func() {
			for {
				if _, err := writers[i].Write(make([]byte, size)); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	time.Sleep(d)
	for _, w := range writers {
		require.NoError(t, w.Close())
		require.Equal(t, io.ErrClosedPipe, <-ended)
	}
	total, parts := 0.0, make([]float64, len(sinks))
	for i := range sinks {
		total += float64(sinks[i].total)
	}
	for i := range sinks {
		parts[i] = float64(sinks[i].total) / total
	}
	return parts
}

func TestSmallAndLargeWritersGetEqualShares(t *testing.T) {
	for name, sizes := range map[string][]int{
		"two":              {512, 256 << 10},
		"four":             {512, 512, 256 << 10, 256 << 10},
		"of all sizes":     {1 << 4, 1 << 8, 1 << 12, 1 << 16, 1 << 20},
		"one among larger": {100, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20},
	} {
		for _, rate := range []int{100_000, 1_000_000, 10_000_000} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					for _, part := range shares(t, perSecond(t, rate), sizes...) {
						require.InEpsilon(t, 1/float64(len(sizes)), part, 0.1)
					}
				})
			})
		}
	}
}

// TestWindowBehindABucket is how the doc says to share a window in equal parts.
func TestWindowBehindABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		window, err := core.NewFixedWindow(core.FixedWindowOptions{
			PermitLimit: 1_000_000, Window: time.Second, QueueLimit: math.MaxInt,
		})
		require.NoError(t, err)
		chain, err := core.Chain(perSecond(t, 1_000_000), window)
		require.NoError(t, err)
		for _, part := range shares(t, chain, 100, 1000, 32<<10) {
			require.InEpsilon(t, 1./3, part, 0.1)
		}
	})
}

func TestAWriterThatRestsHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := perSecond(t, 1_000_000)
		large := ioreader.NewWriter(t.Context(), io.Discard, l)
		done := writing(large, make([]byte, 100_000)) // 90 ms
		small, sent := ioreader.NewWriter(t.Context(), io.Discard, l), 0
		for range 20 {
			n, err := small.Write(make([]byte, 100))
			require.NoError(t, err)
			sent += n
		}
		require.NoError(t, (<-done).err)
		// What it owes is paid with the next write; then each takes just what it writes.
		for range 2 {
			time.Sleep(time.Second)
			require.Equal(t, 10_000, l.Available())
			_, err := small.Write(make([]byte, 100))
			require.NoError(t, err)
		}
		require.Equal(t, 9_900, l.Available())
		require.NoError(t, small.Close())
	})
}

func TestAloneAWriterTakesJustWhatItWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := perSecond(t, 1_000_000)
		w := ioreader.NewWriter(t.Context(), io.Discard, l)
		start := time.Now()
		for i := range 1000 {
			_, err := w.Write(make([]byte, 512))
			require.NoError(t, err)
			periods := (max((i+1)*512-10_000, 0) + 9) / 10 // of 10 bytes and 10 µs
			require.Equal(t, 10*periods, int(time.Since(start)/time.Microsecond))
		}
	})
}

// TestEqualSharesOverAHundredSlices is for low rates, at which a slice is a packet.
func TestEqualSharesOverAHundredSlices(t *testing.T) {
	for _, rate := range []int{10 << 10, 200 << 10} {
		for _, sizes := range [][]int{
			{16, 1 << 20},
			{1, 1460, 1461, 64 << 10},
			{512, 512, 512, 64 << 10, 64 << 10, 64 << 10},
		} {
			synctest.Test(t, func(t *testing.T) {
				d := time.Duration(len(sizes)) * 100 * 1460 * time.Second / time.Duration(rate)
				for i, part := range sharesOver(t, d, perSecond(t, rate), sizes...) {
					require.InEpsilon(t, 1/float64(len(sizes)), part, 0.1, "%d of %v at %d", i, sizes, rate)
				}
			})
		}
	}
}
