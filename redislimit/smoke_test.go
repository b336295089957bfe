package redislimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		l := bucket(t, s.shared("a"), core.TokenBucketOptions{TokenLimit: 3, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		takes(t, l, 2)
		takes(t, l, 1)
		d, _ := core.RetryAfter.From(refuses(t, l, 1))
		require.Equal(t, time.Second, d)
		time.Sleep(time.Second)
		takes(t, l, 1)
		c := concurrency(t, s.shared("c"), core.ConcurrencyLimiterOptions{PermitLimit: 2})
		a := takes(t, c, 2)
		refuses(t, c, 1)
		a.Release()
		takes(t, c, 2).Release()
		f := fixed(t, s.shared("f"), core.FixedWindowOptions{PermitLimit: 2, Window: time.Second})
		takes(t, f, 2)
		refuses(t, f, 1)
		w := sliding(t, s.shared("w"), core.SlidingWindowOptions{PermitLimit: 2, Window: time.Second, SegmentsPerWindow: 10})
		takes(t, w, 2)
		d, _ = core.RetryAfter.From(refuses(t, w, 1))
		require.Equal(t, time.Second, d)
	})
}
