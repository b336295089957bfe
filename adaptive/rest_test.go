package adaptive_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/simulation"
)

const us = time.Microsecond

// alone has n leases, one after the other, held for so long.
func alone(t *testing.T, l *adaptive.Concurrency, n int, held time.Duration) {
	t.Helper()
	for range n {
		lease := l.TryAcquire(1)
		require.True(t, lease.Acquired())
		time.Sleep(held)
		lease.Release()
	}
}

// untilMoved has half of the limit in use, and returns how many leases it takes until the limit
// moves.
func untilMoved(t *testing.T, l *adaptive.Concurrency) int {
	t.Helper()
	limit := l.Limit()
	others := l.TryAcquire(limit / 2)
	defer l.Ignore(others)
	for n := 1; n < 2000; n++ {
		alone(t, l, 1, us)
		if l.Limit() != limit {
			return n
		}
	}
	t.Fatal("the limit does not move")
	return 0
}

// Short leases far below the limit are not all timed; but it is seen soon when there are more,
// when they are held for longer, and when one is dropped.
func TestRests(t *testing.T) {
	const enough, trials = 1500, 20
	for name, c := range map[string]struct {
		algorithm func() adaptive.Algorithm
		then      func(t *testing.T, l *adaptive.Concurrency)
		held      time.Duration
		rests     bool
	}{
		"gradient":       {algorithm: adaptive.Gradient{}.New, held: us, rests: true},
		"vegas":          {algorithm: adaptive.Vegas{}.New, held: us, rests: true},
		"a user's own":   {algorithm: func() adaptive.Algorithm { return called{adaptive.Gradient{}.New()} }, held: us},
		"no short lease": {algorithm: adaptive.Gradient{}.New, held: 20 * us},
		"longer ones since": {
			algorithm: adaptive.Gradient{}.New, held: us,
			then: func(t *testing.T, l *adaptive.Concurrency) {
				t.Helper()
				alone(t, l, 60, ms)
			},
		},
		"a drop": {
			algorithm: adaptive.Gradient{}.New, held: us,
			then: func(t *testing.T, l *adaptive.Concurrency) {
				t.Helper()
				before := l.Limit()
				lease := l.TryAcquire(1)
				l.Drop(lease)
				lease.Release()
				assert.Less(t, l.Limit(), before)
				alone(t, l, 1, us) // after a drop it is not known what is wanted
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := 0
				for trial := range trials {
					l := newConcurrency(t, adaptive.Options{Initial: 100, Algorithm: c.algorithm()})
					alone(t, l, enough+25*trial, c.held)
					if c.then != nil {
						c.then(t, l)
					}
					n := untilMoved(t, l) // which it does at the first sample
					all += n
					if c.rests {
						assert.Less(t, untilMoved(t, l), 300, "leases, of which each is a sample")
					}
					assert.Equal(t, l.Limit(), l.Available())
				}
				if c.rests {
					assert.Greater(t, all, 4*trials)
					assert.Less(t, all, 16*trials)
				} else {
					assert.Less(t, all, 2*trials) // the first sample after a drop may begin another rest
				}
			})
		})
	}
}

// AIMD counts each success, however short.
func TestAIMDDoesNotRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConcurrency(t, adaptive.Options{Initial: 100, Algorithm: adaptive.AIMD{}})
		alone(t, l, 5000, us)
		others := l.TryAcquire(50)
		for want := 101; want < 110; want++ {
			alone(t, l, l.Limit(), us)
			assert.Equal(t, want, l.Limit())
			l.Ignore(others)
			others = l.TryAcquire(l.Limit() / 2)
		}
	})
}

// server has a number of slots and a queue, behind a limiter, in virtual time; its
// clients ask again as soon as they are answered or refused.
type server struct {
	l     *adaptive.Concurrency
	r     *rand.Rand
	took  func(time.Duration, *rand.Rand) time.Duration
	began time.Time
	free  []time.Duration // when the slots are

	under []request // way, the next to end in front
	n     int       // answered
}

type request struct {
	core.Lease

	end time.Duration
}

// run has so many answered, with so many clients at most, and tells observe of each.
func (s *server) run(n, clients int, observe func(limit int)) {
	for until := s.n + n; s.n < until; s.n++ {
		for len(s.under) < clients {
			lease := s.l.TryAcquire(1)
			if !lease.Acquired() {
				break
			}
			s.admit(lease)
		}
		next := s.under[0]
		s.under = s.under[1:]
		time.Sleep(next.end - time.Since(s.began))
		next.Release()
		observe(s.l.Limit())
	}
}

func (s *server) admit(lease core.Lease) {
	slot := 0
	for i, at := range s.free {
		if at < s.free[slot] {
			slot = i
		}
	}
	now := time.Since(s.began)
	end := max(now, s.free[slot]) + s.took(now, s.r)
	s.free[slot] = end
	i := len(s.under)
	s.under = append(s.under, request{})
	for ; i > 0 && s.under[i-1].end > end; i-- {
		s.under[i] = s.under[i-1]
	}
	s.under[i] = request{lease, end}
}

// A limiter that has been at rest finds the capacity within the samples of one that has not: 500
// per unit of it.
func TestFindsTheCapacityAfterARest(t *testing.T) {
	for _, c := range []struct {
		initial, resting, clients int
	}{
		{100, 10, 1 << 20},
		{1000, 10, 1 << 20},
		{1000, 40, 300}, // never half of the limit
	} {
		t.Run(fmt.Sprintf("from %d, %d clients and then %d", c.initial, c.resting, c.clients), func(t *testing.T) {
			for _, f := range finders {
				t.Run(fmt.Sprintf("%T", f), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						const slots, service, n = 100, 2 * us, 100 * 100
						l := newConcurrency(t, adaptive.Options{Initial: c.initial, Algorithm: f.New()})
						s := &server{
							l: l, r: rand.New(rand.NewPCG(1, 3)), took: simulation.Exponential(service),
							began: time.Now(), free: make([]time.Duration, slots),
						}
						s.run(50*slots, c.resting, func(int) {})
						s.run(500*slots, c.clients, func(int) {})
						sum, within := 0, 0
						from := time.Now()
						s.run(n, c.clients, func(limit int) {
							sum += limit
							if 10*limit >= 8*slots && 10*limit <= 12*slots {
								within++
							}
						})
						assert.InDelta(t, 1, float64(sum)/n/slots, 0.2, "the mean limit, over the capacity")
						assert.Greater(t, float64(within)/n, 0.8, "share of samples with a limit within 20 %")
						assert.Greater(t, n/time.Since(from).Seconds()*service.Seconds()/slots, 0.92, "the throughput, over the server's")
						for _, r := range s.under {
							r.Release()
						}
						assert.Equal(t, l.Limit(), l.Available())
					})
				})
			}
		})
	}
}

// More load than the server can take, in less than half of the limit, is seen about as soon as if
// each lease were timed.
func TestSeesOverloadAfterARest(t *testing.T) {
	const slots, service = 100, 2 * us
	for _, f := range finders {
		t.Run(fmt.Sprintf("%T", f), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leases := func(a adaptive.Algorithm) (n int) {
					l := newConcurrency(t, adaptive.Options{Initial: 1000, Algorithm: a})
					s := &server{
						l: l, r: rand.New(rand.NewPCG(1, 3)), took: simulation.Exponential(service),
						began: time.Now(), free: make([]time.Duration, slots),
					}
					s.run(50*slots, 40, func(int) {})
					for l.Limit() > 500 {
						s.run(1, 300, func(int) {})
						n++
					}
					return n
				}
				timed := leases(called{f.New()})
				assert.Less(t, leases(f.New()), timed+timed/2)
			})
		})
	}
}
