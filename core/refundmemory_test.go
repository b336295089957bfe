package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

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
