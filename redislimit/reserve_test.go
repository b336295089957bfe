package redislimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

var _ interface {
	core.Limiter
	core.Reporter
	core.Idler
	core.QuietTrier
	core.Replenisher
	core.Reserver
	core.Resetter
} = (*redislimit.Limiter)(nil)

func delay(t *testing.T, l core.Lease) time.Duration {
	t.Helper()
	require.NoError(t, l.Err())
	d, ok := core.Delay.From(l)
	require.True(t, ok)
	return d
}

// Reservations of two processes have the delays that those of one limiter of core have, with a call each.
func TestReserve(t *testing.T) {
	for _, kind := range []string{"bucket", "ticks of three", "fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				limit := map[string]core.Options{
					"bucket":         core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 100},
					"ticks of three": core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 3, ReplenishmentPeriod: time.Second, QueueLimit: 100},
					"fixed":          core.FixedWindowOptions{PermitLimit: 5, Window: time.Minute, QueueLimit: 100, Anchor: time.Now()},
					"sliding":        core.SlidingWindowOptions{PermitLimit: 5, Window: time.Minute, SegmentsPerWindow: 6, QueueLimit: 100, Anchor: time.Now()},
				}[kind]
				here, there := core.Must(redislimit.New(limit, s.shared("key"))), core.Must(redislimit.New(limit, s.shared("key")))
				defer here.Close()
				defer there.Close()
				local := core.Must(core.New(limit)).(core.Reserver)
				both := []*redislimit.Limiter{here, there}
				before := s.store.runs.Load()
				for i, n := range []int{3, 1, 0, 1, 2, 4, 1, 3, 5, 1} {
					require.Equal(t, delay(t, local.Reserve(n)), delay(t, both[i%2].Reserve(n)), "%d: %d", i, n)
				}
				require.Equal(t, int64(10), s.store.runs.Load()-before)
				require.Zero(t, here.Available())
				require.ErrorIs(t, there.TryAcquire(1).Err(), core.ErrRejected)
			})
		})
	}
}

// A reservation is queued until its time has come; a refund before that returns its permits, a Settle does nothing, and Close ends it.
func TestAReservationThatIsNotDue(t *testing.T) {
	for _, kind := range []string{"bucket", "fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l, other := ofKind(t, kind, s.shared("key"), 5).(*redislimit.Limiter), ofKind(t, kind, s.shared("key"), 5)
				require.Zero(t, delay(t, l.Reserve(5)))
				late := l.Reserve(2)
				require.Positive(t, delay(t, late))
				require.Equal(t, 2, l.Statistics().Queued)
				require.Equal(t, uint64(1), l.Statistics().Granted)
				require.Equal(t, 2, late.Settle(1).Permits())
				late.Refund()
				late.Refund()
				require.Zero(t, l.Statistics().Queued)
				require.Zero(t, other.Available())
				rejected := l.Reserve(5)
				require.NoError(t, rejected.Err())
				require.ErrorIs(t, l.Reserve(1).Err(), core.ErrRejected, "the queue is full")
				require.ErrorIs(t, l.Reserve(6).Err(), core.ErrPermitsExceedLimit)
				require.Equal(t, core.ErrNegativePermits, l.Reserve(-1).Err())
				require.NoError(t, l.Close())
				require.Equal(t, core.ErrClosed, l.Reserve(1).Err())
				time.Sleep(time.Minute)
				takes(t, other, 5)
				require.Equal(t, uint64(1), l.Statistics().Granted)
			})
		})
	}
}

// A reservation counts as a grant once its time has come, and can be refunded like one.
func TestAReservationThatIsDue(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 5, ReplenishmentPeriod: time.Minute, QueueLimit: 5})
		takes(t, l, 5)
		late := l.Reserve(2)
		require.Equal(t, time.Minute, delay(t, late))
		time.Sleep(time.Minute)
		require.Equal(t, core.Statistics{Limit: 5, Available: 3, Granted: 2}, l.Statistics())
		late.Refund()
		require.Equal(t, 5, l.Available())
	})
}

// Where a reservation cannot be, Reserve says so.
func TestReserveOfOtherLimits(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		c := concurrency(t, s.shared("leases"), core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
		require.ErrorContains(t, c.Reserve(1).Err(), "a concurrency limit's permits come back when leases are released")
		require.Error(t, c.TryReset())
		day := fixed(t, s.shared("day"), core.FixedWindowOptions{PermitLimit: 1, Calendar: core.Daily(nil), QueueLimit: 1})
		require.Zero(t, delay(t, day.Reserve(1)))
		tomorrow := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		require.Equal(t, time.Until(tomorrow), delay(t, day.Reserve(1)))
		var zero redislimit.Limiter
		require.Equal(t, core.ErrClosed, zero.Reserve(1).Err())
	})
}

// What is reserved of the days to come is not there for other processes. A day for which there can be no ticket yet is not reserved.
func TestReserveDays(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		const day = 24 * time.Hour
		daily := core.FixedWindowOptions{PermitLimit: 1, Calendar: core.Daily(nil), QueueLimit: 50}
		a, b := fixed(t, s.shared("key"), daily), fixed(t, s.shared("key"), daily)
		for i := range 11 {
			require.Equal(t, time.Duration(i)*day, delay(t, a.Reserve(1)))
		}
		later := a.Reserve(1)
		require.ErrorIs(t, later.Err(), core.ErrRejected)
		retry, _ := core.RetryAfter.From(later)
		require.Equal(t, 11*day, retry)
		for range 11 {
			refuses(t, b, 1)
			time.Sleep(day)
		}
		takes(t, b, 1)
	})
}
