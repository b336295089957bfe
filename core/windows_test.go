package core_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// A sliding window keeps nothing of grants that were refunded, as a chain that refuses does.
func TestASlidingWindowForgetsItsRefunds(t *testing.T) {
	const n = 20_000
	var l *core.SlidingWindow
	kept := keeps(func() {
		synctest.Test(t, func(t *testing.T) {
			l = sliding(t, core.SlidingWindowOptions{PermitLimit: 2, Window: time.Hour, SegmentsPerWindow: int(time.Hour / time.Millisecond)})
			takes(t, l, 1)
			for range n {
				time.Sleep(time.Millisecond)
				takes(t, l, 1).Refund()
			}
			rejected(t, l, 2, time.Hour-n*time.Millisecond)
		})
	})
	require.Less(t, kept, 64<<10)
	require.NoError(t, l.Close())
}

// TestAnAnchorOfALongWindowWithTheMostSegments: there are more segments since the anchor than
// an int64 can count.
func TestAnAnchorOfALongWindowWithTheMostSegments(t *testing.T) {
	for _, segments := range []int{10, math.MaxInt - 1, math.MaxInt} {
		for _, ahead := range []time.Duration{1, time.Hour, -time.Hour} {
			t.Run(fmt.Sprintf("%d/%v", segments, ahead), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := sliding(t, core.SlidingWindowOptions{
						PermitLimit: 3, Window: math.MaxInt64, SegmentsPerWindow: segments, Anchor: time.Now().Add(ahead),
					})
					for range 3 {
						time.Sleep(time.Minute)
						takes(t, l, 1)
					}
					for range 3 {
						time.Sleep(time.Minute)
						refused := l.TryAcquire(1)
						require.False(t, refused.Acquired())
						retry, _ := core.RetryAfter.From(refused)
						require.Greater(t, retry, time.Duration(math.MaxInt64/2))
					}
				})
			})
		}
	}
}
