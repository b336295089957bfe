package compat_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/core"
)

// story is one limiter of each kind, and the reservations that can still be canceled, the latest last. Both
// define only these: when others have reserved since, x/time/rate leaves them in place and ours move up.
type story struct {
	ours   *core.TokenBucket
	theirs *rate.Limiter
	within time.Duration // of the instants
	chains bool          // a second cancellation may follow a first
	open   []reservedTwice
}

type reservedTwice struct {
	ours   core.Lease
	theirs *rate.Reservation
	due    time.Time
}

// 3,000 random sequences of Reserve, Cancel and Allow have the same instants in both. x/time/rate counts in
// floating point and rounds down, so its delays are exact where seconds are fractions of powers of two, and
// up to 1 ns short elsewhere. All instants are even there: 1 ns before a token comes it may be granted already.
func TestReservationsAreThoseOfRate(t *testing.T) {
	const exact = time.Second / 512
	for seed := range uint64(3000) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 512))
			s := &story{within: 1}
			unit := 2 * time.Nanosecond
			period := unit * time.Duration(1+random.Int64N(1<<random.IntN(30)))
			if seed%2 == 0 {
				s.within, s.chains, unit, period = 0, true, exact, exact<<random.IntN(8)
			}
			burst := 1 + random.IntN(6)
			t.Log("seed", seed, "period", period, "burst", burst)
			bucket := core.Must(core.NewTokenBucket(core.Every(period, burst)))
			s.ours, s.theirs = bucket, rate.NewLimiter(rate.Every(period), burst)
			for range 60 {
				if random.IntN(3) > 0 {
					time.Sleep(unit * time.Duration(random.Int64N(int64(2*period/unit)+1)))
				}
				n := 1 + random.IntN(burst+1) // sometimes more than the limit
				switch random.IntN(5) {
				case 0, 1:
					s.reserve(t, n)
				case 2, 3:
					s.allow(t, n)
				case 4:
					s.cancel()
				}
			}
		})
	}
}

func (s *story) reserve(t *testing.T, n int) {
	t.Helper()
	ours, theirs := s.ours.Reserve(n), s.theirs.ReserveN(time.Now(), n)
	require.Equal(t, theirs.OK(), ours.Acquired())
	if !theirs.OK() {
		require.ErrorIs(t, ours.Err(), core.ErrPermitsExceedLimit)
		return
	}
	got, known := core.Delay.From(ours)
	require.True(t, known)
	short := got - theirs.Delay()
	require.True(t, 0 <= short && short <= s.within, "Delay %v, x/time/rate %v", got, theirs.Delay())
	if !s.chains {
		s.open = s.open[:0]
	}
	s.open = append(s.open, reservedTwice{ours, theirs, time.Now().Add(theirs.Delay())})
}

func (s *story) allow(t *testing.T, n int) {
	t.Helper()
	allowed := s.theirs.AllowN(time.Now(), n)
	require.Equal(t, allowed, s.ours.TryAcquire(n).Acquired())
	if allowed {
		s.open = s.open[:0]
	}
}

// cancel cancels the latest reservation, unless its instant is over.
func (s *story) cancel() {
	if len(s.open) == 0 {
		return
	}
	last := s.open[len(s.open)-1]
	s.open = s.open[:len(s.open)-1]
	if !last.due.Before(time.Now()) {
		last.ours.Refund()
		last.theirs.Cancel()
	}
	before := last.due.Add(-time.Duration(last.ours.Permits()) * s.ours.ReplenishmentPeriod())
	if n := len(s.open); n > 0 && (!s.open[n-1].due.Equal(before) || before.Before(time.Now())) {
		s.open = s.open[:0] // x/time/rate does not know that this one is the latest now
	}
}
