package ioreader_test

import (
	"fmt"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/ioreader"
)

// shares has writers of these sizes write as much as they can for some time, and returns the part of each.
func shares(t *testing.T, d time.Duration, l core.Limiter, sizes ...int) []float64 {
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
	equal := func(d time.Duration, l func() core.Limiter, sizes ...int) {
		testkit.Bubble(t, fmt.Sprint(d, sizes), func(t *testing.T) {
			for i, part := range shares(t, d, l(), sizes...) {
				require.InEpsilon(t, 1/float64(len(sizes)), part, 0.1, "the writer of %d bytes", sizes[i])
			}
		})
	}
	for _, rate := range []int{100_000, 1_000_000, 10_000_000} {
		bucket := func() core.Limiter { return perSecond(t, rate) }
		equal(5*time.Second, bucket, 512, 256<<10)
		equal(5*time.Second, bucket, 1<<4, 1<<8, 1<<12, 1<<16, 1<<20)
		equal(5*time.Second, bucket, 100, 1<<20, 1<<20, 1<<20, 1<<20, 1<<20)
	}
	for _, rate := range []int{10 << 10, 200 << 10} { // at low rates a slice is a packet
		slices := 100 * 1460 * time.Second / time.Duration(rate) // a hundred
		bucket := func() core.Limiter { return perSecond(t, rate) }
		equal(2*slices, bucket, 16, 1<<20)
		equal(4*slices, bucket, 1, 1460, 1461, 64<<10)
		equal(6*slices, bucket, 512, 512, 512, 64<<10, 64<<10, 64<<10)
	}
	// The docs say to share a window in equal parts like this.
	equal(5*time.Second, func() core.Limiter {
		window := core.Must(core.NewFixedWindow(core.FixedWindowOptions{
			PermitLimit: 1_000_000, Window: time.Second, QueueLimit: math.MaxInt,
		}))
		return core.Must(core.Chain(perSecond(t, 1_000_000), window))
	}, 100, 1000, 32<<10)
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
