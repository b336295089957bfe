package core_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestRejectedErrorMatches(t *testing.T) {
	e := &core.RejectedError{Limiter: "api", Permits: 3, Reason: "permits exhausted", RetryAfter: 250 * time.Millisecond}
	require.ErrorIs(t, e, core.ErrRejected)
	require.ErrorIs(t, fmt.Errorf("wrapped: %w", e), core.ErrRejected)
	require.NotErrorIs(t, e, context.DeadlineExceeded)
	require.NotErrorIs(t, e, core.ErrClosed)
	for _, part := range []string{"api", "permits exhausted", "250ms"} {
		require.Contains(t, e.Error(), part)
	}
	require.NotContains(t, (&core.RejectedError{}).Error(), "retry")
}

// The text says what was asked for, what was there, any other reason, and when to come back.
func TestRejectedErrorSays(t *testing.T) {
	for want, e := range map[string]core.RejectedError{
		`core: rejected`: {},
		`core: rejected 1 permit: permits exhausted`:  {Permits: 1, Reason: core.ReasonExhausted},
		`core: rejected 0 permits: 0 of 10 available`: {Limit: 10, Reason: core.ReasonExhausted},
		`core: rejected, retry after 1s`:              {RetryAfter: time.Second},
		`core: rejected: closed, retry after 1s`:      {Reason: "closed", RetryAfter: time.Second},
		`core: "api" rejected 3 permits: 2 of 10 available, retry after 4.7s`: {
			Limiter: "api", Permits: 3, Limit: 10, Available: 2, Reason: core.ReasonExhausted, RetryAfter: 4_666_666_667,
		},
		`core: "api" rejected 3 permits: 2 of 10 available, deadline too soon, retry after 12ms`: {
			Limiter: "api", Permits: 3, Limit: 10, Available: 2, Reason: core.ReasonDeadlineTooSoon, RetryAfter: 12_345_678,
		},
	} {
		require.EqualError(t, &e, want)
	}
	for want, d := range map[string]time.Duration{
		"1ns": 1, "50ms": 49_999_329, "330ms": time.Second / 3, "59s": 59 * time.Second, "1m": 59_700 * time.Millisecond,
		"1.5m": 89 * time.Second, "47m": 47 * time.Minute, "24h": 24 * time.Hour, "1.5h": 90 * time.Minute, "730h": 730 * time.Hour,
	} {
		require.EqualError(t, &core.RejectedError{RetryAfter: d}, "core: rejected, retry after "+want)
	}
}

// A rejection of a limiter says what its lease says.
func TestRejectionsHaveTheNumbers(t *testing.T) {
	l := bucket(t, core.TokenBucketOptions{Name: "api", TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
	takes(t, l, 8)
	var e *core.RejectedError
	require.ErrorAs(t, l.TryAcquire(3).Err(), &e)
	require.Equal(t, []int{3, 10, 2}, []int{e.Permits, e.Limit, e.Available})
	lease := core.Reject(core.LimiterName.With("x"), core.PermitLimit.With(7), core.Remaining.With(1), core.ReasonPhrase.With("no"))
	require.EqualError(t, lease.Err(), `core: "x" rejected 0 permits: 1 of 7 available, no`)
}

// Why a request may not wait: there is no queue, or it is full. The reason phrase is the same.
func TestAFullQueueAndNone(t *testing.T) {
	for name, c := range map[string]struct {
		queue, n int
		want     string
	}{
		"no queue": {0, 1, `core: "api" rejected 1 permit: 0 of 3 available, queue limit reached (QueueLimit is 0)`},
		"too many": {2, 3, `core: "api" rejected 3 permits: 0 of 3 available, queue limit reached (queue is full)`},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "api", PermitLimit: 3, QueueLimit: c.queue})
			require.NoError(t, err)
			takes(t, l, 3)
			lease, err := l.Acquire(t.Context(), c.n)
			require.EqualError(t, err, c.want)
			require.EqualError(t, lease.Err(), c.want)
			rejection(t, err, "queue limit reached", 0)
			phrase, _ := core.ReasonPhrase.From(lease)
			require.Equal(t, "queue limit reached", phrase)

			// A reason of the user's own says it all.
			text, _, _ := strings.Cut(c.want, "queue limit")
			_, err = core.WithReason(l, "try tomorrow").Acquire(t.Context(), c.n)
			require.EqualError(t, err, text+"try tomorrow")
			require.EqualError(t, lease.With(core.ReasonPhrase.With("later")).Err(), text+"later")
		})
	}
	require.EqualError(t, &core.RejectedError{Reason: "queue limit reached", Detail: "QueueLimit is 0", RetryAfter: time.Second},
		"core: rejected: queue limit reached (QueueLimit is 0), retry after 1s")
}

// All faults are reported together.
func TestBadOptions(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"concurrency": {
			faultsOf(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{QueueLimit: -1, QueueOrder: 7})),
			[]string{
				"core: ConcurrencyLimiterOptions.PermitLimit = 0, want at least 1",
				"core: ConcurrencyLimiterOptions.QueueLimit = -1, want at least 0",
				"core: ConcurrencyLimiterOptions.QueueOrder = ",
			},
		},
		"bucket": {
			faultsOf(core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: -1, TokensPerPeriod: math.MinInt, ReplenishmentPeriod: -time.Second, QueueLimit: -2,
			})),
			[]string{
				"core: TokenBucketOptions.TokenLimit = -1, want at least 1",
				fmt.Sprintf("core: TokenBucketOptions.TokensPerPeriod = %d, want at least 1", math.MinInt),
				"core: TokenBucketOptions.ReplenishmentPeriod = -1s, want above 0",
				"core: TokenBucketOptions.QueueLimit = -2, want at least 0",
			},
		},
		"fixed": {
			faultsOf(core.NewFixedWindow(core.FixedWindowOptions{QueueLimit: -2, QueueOrder: 3})),
			[]string{
				"core: FixedWindowOptions.PermitLimit = 0, want at least 1",
				"core: FixedWindowOptions.Window = 0s, want above 0",
				"core: FixedWindowOptions.QueueLimit = -2, want at least 0",
				"core: FixedWindowOptions.QueueOrder = ",
			},
		},
		"sliding": {
			faultsOf(core.NewSlidingWindow(core.SlidingWindowOptions{Window: 10, SegmentsPerWindow: 11})),
			[]string{
				"core: SlidingWindowOptions.PermitLimit = 0, want at least 1",
				"core: SlidingWindowOptions.SegmentsPerWindow = 11, want ",
			},
		},
		"sliding, nothing set": {
			faultsOf(core.NewSlidingWindow(core.SlidingWindowOptions{})),
			[]string{
				"core: SlidingWindowOptions.PermitLimit = 0, want at least 1",
				"core: SlidingWindowOptions.Window = 0s, want above 0",
				"core: SlidingWindowOptions.SegmentsPerWindow = 0, want ",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			lines := strings.Split(c.err.Error(), "\n")
			require.Len(t, lines, len(c.want))
			for i, line := range lines {
				require.True(t, strings.HasPrefix(line, c.want[i]), line)
			}
		})
	}
}

// faultsOf returns the error of a constructor.
func faultsOf(_ core.Limiter, err error) error { return err }

func TestLogValues(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	log.Info("x", "err", &core.RejectedError{Limiter: "api", Permits: 3, Reason: "permits exhausted", RetryAfter: time.Second})
	require.JSONEq(t, `{"level":"INFO","msg":"x","err":{"limiter":"api","permits":3,"reason":"permits exhausted","retry_after":1000000000}}`, out.String())
	out.Reset()
	log.Info("x", "stats", core.Statistics{Limit: 1, Available: 2, Queued: 3, Granted: 4, Rejected: 5})
	require.JSONEq(t, `{"level":"INFO","msg":"x","stats":{"limit":1,"available":2,"queued":3,"granted":4,"rejected":5}}`, out.String())
}

// exceeds finds the error to say that, of whose limit.
func exceeds(tb testing.TB, err error, want core.ExceedsLimitError) {
	tb.Helper()
	require.ErrorIs(tb, err, core.ErrPermitsExceedLimit)
	var e *core.ExceedsLimitError
	require.ErrorAs(tb, err, &e)
	require.Equal(tb, want, *e)
}

func TestMoreThanTheLimitInNumbers(t *testing.T) {
	for name, l := range four(t, 3, 3) {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{4, math.MaxInt} {
				want := core.ExceedsLimitError{Permits: n, Limit: 3}
				exceeds(t, l.TryAcquire(n).Err(), want)
				lease, err := l.Acquire(t.Context(), n)
				exceeds(t, err, want)
				require.Same(t, err, lease.Err())
				lease, err = core.WithReason(l, "why").Acquire(t.Context(), n)
				exceeds(t, err, want)
				require.Same(t, err, lease.Err())
				lease, err = chain(t, core.Unlimited(), l).Acquire(t.Context(), n)
				exceeds(t, err, want)
				require.Same(t, err, lease.Err())
				exceeds(t, chain(t, l).TryAcquire(n).Err(), want)
			}
			// The limit at the time of the request.
			lease := l.TryAcquire(4)
			require.False(t, lease.Acquired())
			exceeds(t, lease.With(core.Remaining.With(1)).Err(), core.ExceedsLimitError{Permits: 4, Limit: 3})
		})
	}
}

func TestMoreThanTheLimitByName(t *testing.T) {
	l, err := core.NewFixedWindow(core.FixedWindowOptions{Name: "api", PermitLimit: 5, Window: time.Second})
	require.NoError(t, err)
	err = l.TryAcquire(7).Err()
	require.EqualError(t, err, `core: 7 permits are more than the limit of 5 of "api"`)
	require.ErrorIs(t, fmt.Errorf("wrapped: %w", err), core.ErrPermitsExceedLimit)
	require.NotErrorIs(t, err, core.ErrRejected)
	require.EqualError(t, &core.ExceedsLimitError{Permits: 7, Limit: 5}, "core: 7 permits are more than the limit of 5")
}
