package core_test

import (
	"fmt"
	"math"
	"math/big"
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

// Windows that their segments do not divide: permits taken just before, or at, a segment's
// beginning come back when segment i+S begins: at the anchor + ceil((i+S)·W/S).
func TestSegmentsThatDoNotDivideTheWindow(t *testing.T) {
	type grid struct {
		window   time.Duration
		segments int64
		anchor   time.Duration // from the creation
	}
	for _, g := range []grid{
		{10, 3, 0},
		{10, 7, 3},
		{10, 10, 0},
		{10, 1, -4},
		{11, 10, -1},
		{time.Second, 7, 0},
		{time.Second, 7, 123456789},
		{time.Second, 1e9, 0},
		{time.Hour, 3_600_000_000_000 - 1, 1},
		{1<<63 - 1, 1<<63 - 1, 0},
		{1<<63 - 1, 1 << 62, 0},
	} {
		if g.segments > math.MaxInt {
			continue // not on this machine
		}
		begin := func(i int64) time.Duration {
			x := new(big.Int).Mul(big.NewInt(i), big.NewInt(int64(g.window)))
			x.Add(x, big.NewInt(g.segments-1))
			x.Div(x, big.NewInt(g.segments)) // rounds down
			return time.Duration(x.Int64()) + g.anchor
		}
		for i := range int64(12) {
			synctest.Test(t, func(t *testing.T) {
				at := begin(i)
				if at < 0 || at > 1<<61 {
					return
				}
				l := sliding(t, core.SlidingWindowOptions{
					PermitLimit: 2, Window: g.window, SegmentsPerWindow: int(g.segments), Anchor: time.Now().Add(g.anchor), QueueLimit: 2,
				})
				if at > 0 {
					time.Sleep(at - 1)
					takes(t, l, 1)
					time.Sleep(1)
				}
				takes(t, l, 1)
				if g.segments > 1<<61 {
					return // it comes back in centuries
				}
				if at == 0 {
					takes(t, l, 1)
					rejected(t, l, 1, begin(i+g.segments)-at)
					return
				}
				before := i - 1 // or, of a window's nanoseconds, the same
				for begin(before) > at-1 {
					before--
				}
				first := begin(before+g.segments) - at
				if first <= 0 { // back at this very instant
					available(t, l, 1)
					return
				}
				rejected(t, l, 1, first)
				rejected(t, l, 2, begin(i+g.segments)-at)
				a := queues(t, l, 2)
				time.Sleep(begin(i+g.segments) - at - 1)
				a.waits(t)
				time.Sleep(1)
				a.granted(t)
			})
		}
	}
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
