package ioreader_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// embedding overrides a method of the limiter that it embeds.
type embedding struct{ *core.TokenBucket }

func (e embedding) Acquire(ctx context.Context, n int) (core.Lease, error) {
	return e.TokenBucket.Acquire(ctx, n)
}

// TestALimiterIsPacedByItsLeases, whichever package it is from.
func TestALimiterIsPacedByItsLeases(t *testing.T) {
	chain := func(first, second core.Limiter) core.Limiter {
		return core.Must(core.Chain(first, second))
	}
	ample := semaphore(t, 1<<30)
	for name, seen := range map[string]func(core.Limiter) core.Limiter{
		"bare":                    func(l core.Limiter) core.Limiter { return l },
		"with a reason":           func(l core.Limiter) core.Limiter { return core.WithReason(l, "bandwidth") },
		"embedded":                func(l core.Limiter) core.Limiter { return embedding{l.(*core.TokenBucket)} },
		"a limiter only":          func(l core.Limiter) core.Limiter { return struct{ core.Limiter }{l} },
		"first in a chain":        func(l core.Limiter) core.Limiter { return chain(l, ample) },
		"second in a chain":       func(l core.Limiter) core.Limiter { return chain(ample, l) },
		"on a server":             func(l core.Limiter) core.Limiter { return distant{l} },
		"a chain with no windows": func(l core.Limiter) core.Limiter { return chain(l, core.Unlimited()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := bucketOf(t, 1_000_000, 10, 10*time.Microsecond) // 1 MB/s, and a burst of a second of it
				require.True(t, bucket.TryAcquire(1_000_000).Acquired())
				sink := newMeter()
				_, err := ioreader.NewWriter(t.Context(), sink, seen(bucket)).Write(make([]byte, 1_000_000))
				require.NoError(t, err)
				require.Equal(t, time.Second, time.Since(sink.start))
				for _, size := range sink.sizes[1:] { // the first lease reports the rate
					require.LessOrEqual(t, size, 2000)
				}
				require.LessOrEqual(t, len(sink.sizes), 1100)
			})
		})
	}
}

// distant is a limiter on a server, whose leases do not report the window.
type distant struct{ core.Limiter }

func (d distant) Acquire(ctx context.Context, n int) (core.Lease, error) {
	lease, err := d.Limiter.Acquire(ctx, n)
	if err != nil {
		return lease, err
	}
	limit, _ := core.PermitLimit.From(lease)
	left, _ := core.Remaining.From(lease)
	reset, _ := core.ResetAfter.From(lease)
	return core.Grant(n, nil, core.PermitLimit.With(limit), core.Remaining.With(left), core.ResetAfter.With(reset)), nil
}

func TestString(t *testing.T) {
	l := &limiterOf{}
	require.Equal(t, "throttled reader, limited by *ioreader_test.limiterOf", ioreader.NewReader(t.Context(), strings.NewReader(""), l).String())
	require.Equal(t, "throttled writer, unlimited", ioreader.NewWriter(t.Context(), io.Discard, nil).String())
	require.Equal(t, "throttled writer, unlimited", new(ioreader.Writer).String())
	c, _ := conns(t, ioreader.ConnOptions{Read: l})
	require.Equal(t, "connection pipe to pipe, reading limited by *ioreader_test.limiterOf, writing unlimited", fmt.Sprint(c))
	require.Equal(t, "throttled listener on hall", fmt.Sprint(listen(t, newHall(), ioreader.ListenerOptions{})))
}
