package meter_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/meter"
	"github.com/sluice-go/sluice/internal/turn"
)

// stream is a meter with its turn, as a stream has them.
type stream struct {
	turn  turn.Turn
	meter meter.Meter
}

func newStream(l core.Limiter) *stream {
	s := new(stream)
	s.turn.Init()
	s.meter.Init(l, &s.turn)
	return s
}

func bucket(tb testing.TB, limit, tokens int, period time.Duration) *core.TokenBucket {
	tb.Helper()
	l, err := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: limit, TokensPerPeriod: tokens, ReplenishmentPeriod: period, QueueLimit: math.MaxInt,
	})
	require.NoError(tb, err)
	return l
}

// pays takes a slice of which so many bytes pass.
func (s *stream) pays(t *testing.T, want, passed int) int {
	t.Helper()
	require.NoError(t, s.turn.Take(t.Context()))
	defer s.turn.Leave()
	n, err := s.meter.Take(t.Context(), want)
	require.NoError(t, err)
	s.meter.Settle(min(n, passed))
	return n
}

func TestWhatDoesNotPassIsGivenBack(t *testing.T) {
	l := bucket(t, 100, 1, time.Hour)
	s := newStream(l)
	require.Equal(t, 20, s.pays(t, 20, 15))
	require.Equal(t, 85, l.Available())
	require.Equal(t, 20, s.pays(t, 20, 0))
	require.Equal(t, 85, l.Available())
}

func TestNoMeterIsTrustedThatIsNotOfCoreItself(t *testing.T) {
	l := bucket(t, 100, 1, time.Hour)
	require.True(t, (&newStream(l).meter).Trusted())
	require.False(t, (&newStream(struct{ *core.TokenBucket }{l}).meter).Trusted())
	require.False(t, (&newStream(core.WithReason(l, "reason")).meter).Trusted())
	require.Nil(t, newStream(nil).meter.Limiter())
	require.Nil(t, newStream((*core.TokenBucket)(nil)).meter.Limiter())
}

func TestSame(t *testing.T) {
	l, other := bucket(t, 1, 1, 1), bucket(t, 1, 1, 1)
	require.True(t, meter.Same(l, l))
	require.False(t, meter.Same(l, other))
	require.False(t, meter.Same(nil, nil))
	require.False(t, meter.Same(l, nil))
	odd := struct { // cannot be compared
		core.Limiter
		_ []int
	}{Limiter: l}
	require.False(t, meter.Same(odd, odd))
}

// TestSlicesOfAnyRate has numbers at their ends.
func TestSlicesOfAnyRate(t *testing.T) {
	for name, c := range map[string]struct {
		limit, tokens int
		period        time.Duration
		want          int
	}{
		"a byte in an hour":   {1, 1, time.Hour, 1},
		"1000 bytes a second": {1000, 1, time.Millisecond, 5},                 // of 5 ms
		"1 MB a second":       {1_000_000, 1, time.Microsecond, 2000},         // of 2 ms
		"all there are":       {math.MaxInt, math.MaxInt, 1, math.MaxInt / 4}, // a quarter of the limit
		"a small limit":       {10, 10, time.Microsecond, 2},                  // the same
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := bucket(t, c.limit, c.tokens, c.period)
				s := newStream(l)
				s.pays(t, 1, 1)
				for l.TryAcquire(max(l.Available(), 1)).Acquired() {
				}
				s.pays(t, 1, 1) // has to wait
				require.Equal(t, c.want, s.meter.Slice(math.MaxInt))
			})
		})
	}
}

// TestStressBatchesThatExpire has streams share a bucket, small ones get batches, and rest
// until these expire: the race detector looks on, and no permit is lost.
func TestStressBatchesThatExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, 1000, 10, 100*time.Microsecond)
		done := make(chan struct{})
		for i := range 8 {
			s := newStream(l)
			go func() {
				defer func() { done <- struct{}{} }()
				for round := range 200 {
					_ = s.turn.Take(t.Context())
					n, err := s.meter.Take(t.Context(), 1+i*100)
					if err != nil {
						t.Error(err)
					}
					s.meter.Settle(n)
					s.turn.Leave()
					if round%20 == 0 {
						time.Sleep(time.Duration(i) * time.Millisecond)
					}
				}
				s.meter.Clear()
			}()
		}
		for range 8 {
			<-done
		}
		time.Sleep(time.Minute)
		require.Equal(t, 1000, l.Available())
	})
}
