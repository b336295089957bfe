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

func TestAFixedWindowGivesAllBackAtTheBoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, core.FixedWindowOptions{PermitLimit: 5, Window: time.Second, QueueLimit: 20})
		time.Sleep(900 * time.Millisecond)
		takes(t, l, 5)
		rejected(t, l, 1, 100*time.Millisecond)
		a, b := queues(t, l, 5), queues(t, l, 5)
		rejected(t, l, 1, 2100*time.Millisecond)
		time.Sleep(100*time.Millisecond - 1)
		a.waits(t)
		time.Sleep(1)
		a.granted(t)
		time.Sleep(time.Second)
		b.granted(t)
		time.Sleep(17*time.Second + 300*time.Millisecond)
		available(t, l, 5)
		takes(t, l, 5)
		rejected(t, l, 1, 700*time.Millisecond) // the grid has not moved
	})
}

// A sliding window keeps nothing of grants that were given back, as a chain that refuses does.
func TestASlidingWindowForgetsItsRefunds(t *testing.T) {
	const n = 20_000
	var l *core.SlidingWindow
	kept := keeps(func() {
		synctest.Test(t, func(t *testing.T) {
			l = sliding(t, core.SlidingWindowOptions{PermitLimit: 2, Window: time.Hour, SegmentsPerWindow: int(time.Hour / time.Millisecond)})
			takes(t, l, 1)
			for range n {
				time.Sleep(time.Millisecond)
				l.Refund(takes(t, l, 1))
			}
			rejected(t, l, 2, time.Hour-n*time.Millisecond)
		})
	})
	require.Less(t, kept, 64<<10)
	require.NoError(t, l.Close())
}

// Limit 10, window 3 s in 3 segments; 3, 4, 3 are taken, then 1 in the fourth second, when
// the 3 of the first are back: the second window holds 8.
func TestTheSecondWindowHolds8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sliding(t, core.SlidingWindowOptions{PermitLimit: 10, Window: 3 * time.Second, SegmentsPerWindow: 3})
		time.Sleep(500 * time.Millisecond)
		for _, n := range []int{3, 4, 3} {
			takes(t, l, n)
			time.Sleep(time.Second)
		}
		takes(t, l, 1)
		require.Equal(t, 8, 10-l.Available())
		rejected(t, l, 3, 500*time.Millisecond)
		rejected(t, l, 7, 1500*time.Millisecond)
		rejected(t, l, 10, 2500*time.Millisecond)
	})
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
