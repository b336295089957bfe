package limitertest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/core"
)

const crowd = 8 // goroutines

// crowded calls turn on all goroutines, that many times on each.
func crowded(turns int, turn func(goroutine, i int)) {
	var wg sync.WaitGroup
	for g := range crowd {
		wg.Go(func() {
			for i := range turns {
				turn(g, i)
			}
		})
	}
	wg.Wait()
}

// crowds has many goroutines use the limiter at the same time.
func crowds(s *subject) {
	s.manyAtOnce()
	s.renew()
	s.randomTurns()
	if !s.Holds {
		return
	}
	if s.QueueLimit >= s.Limit {
		s.renew()
		s.releaseComesBefore()
	}
	if s.reaches(queue) && s.QueueLimit > 0 {
		s.renew()
		s.grantOrCancel()
	}
}

// manyAtOnce expects concurrent callers to get all permits, and no more.
func (s *subject) manyAtOnce() {
	n := max(1, s.Limit/64)
	var mu sync.Mutex
	take := func() bool {
		l := s.l.TryAcquire(n)
		if l.Acquired() {
			mu.Lock()
			s.leases = append(s.leases, l)
			mu.Unlock()
		}
		return l.Acquired()
	}
	crowded(s.Limit/n+1, func(int, int) { take() })
	// A chain may reject one request while another, which it will reject too, still has a permit.
	for range s.Limit/n + 1 {
		if !take() {
			break
		}
	}
	if got, want := len(s.leases), s.Limit/n; got != want {
		s.errorf("%d goroutines took %d permits each, as long as there were: %d grants, want %d of %d permits", crowd, n, got, want, s.Limit)
	}
	s.has(s.Limit%n, "after many callers took all permits")
}

// randomTurns expects no more permits to be held than the limit, however requests and releases interleave, and
// the counts never to fall, because an exporter treats a decrease as a restart.
func (s *subject) randomTurns() {
	const turns = 40
	var mu sync.Mutex
	held := 0
	last, _ := s.counts()
	crowded(turns, func(g, i int) {
		n := 1 + (g*turns+i*7)%min(s.Limit, 5)
		l, ok := s.turn(n, g+i)
		mu.Lock()
		st, _ := s.counts()
		if st.Granted < last.Granted || st.Rejected < last.Rejected {
			s.errorf("Statistics went from %v to %v, want Granted and Rejected to grow alone", last, st)
		}
		last = st
		if ok {
			held += n
		}
		if s.Holds && held > s.Limit {
			s.errorf("%d goroutines held %d permits at the same time, want %d at most", crowd, held, s.Limit)
		}
		mu.Unlock()
		if !ok {
			return
		}
		wait(time.Duration(i%3) * time.Microsecond)
		mu.Lock()
		held -= n
		mu.Unlock()
		l.Release()
	})
	s.refill()
	s.has(s.Limit, "after all leases were released")
	s.queues(0, "after all callers have returned")
}

// turn takes n permits in one way or another.
func (s *subject) turn(n, way int) (core.Lease, bool) {
	if way%3 == 0 {
		l := s.l.TryAcquire(n)
		return l, l.Acquired()
	}
	limit := time.Duration(way%4) * (time.Microsecond + s.Refill)
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	l, err := s.l.Acquire(ctx, n)
	return l, err == nil
}

// releaseComesBefore expects a goroutine that holds all permits to see what their previous holder
// wrote. The sum shows that holders exclude each other; the race detector checks the order of memory.
func (s *subject) releaseComesBefore() {
	sum := 0 // no atomic, no mutex: the limiter is one
	var grants atomic.Int64
	crowded(10, func(int, int) {
		l, err := s.l.Acquire(s.ctx, s.Limit)
		if err != nil {
			wait(time.Microsecond) // the queue is full
			return
		}
		seen := sum
		wait(time.Nanosecond)
		sum = seen + 1
		grants.Add(1)
		l.Release()
	})
	if g := grants.Load(); g == 0 || g != int64(sum) {
		s.errorf("%d goroutines added 1 under a lease of all permits, %d times in all: %d", crowd, g, sum)
	}
}

// grantOrCancel expects a grant and a cancellation at the same time to have one outcome, and nothing
// to be lost.
func (s *subject) grantOrCancel() {
	const rounds = 100
	for i := range rounds {
		l := s.empties()
		c := s.waiter(1, "with nothing available")
		// Who is started last is likely to run first.
		var race sync.WaitGroup
		switch i % 4 {
		case 0:
			race.Go(c.cancel)
			race.Go(l.Release)
		case 1:
			race.Go(l.Release)
			race.Go(c.cancel)
		case 2:
			l.Release()
			c.cancel()
		case 3:
			race.Go(l.Release)
			c.cancel()
		}
		race.Wait()
		s.refill()
		if c.granted() {
			c.wantGrant("while its context was canceled")
			s.has(s.Limit-1, "after a grant won")
		} else {
			c.wantError(context.Canceled, "while its permits came back")
			s.has(s.Limit, "after a cancellation won")
		}
		s.restock()
		s.has(s.Limit, "after a grant and a cancellation at the same time")
		s.leases, s.calls = nil, nil
	}
}

// switchTakesOut expects a Switch to take a waiter out of the limiter when it is exchanged, with nothing lost.
func switchTakesOut(s *subject) {
	inner := s.l
	lease := s.empties()
	sw := core.NewSwitch(inner)
	s.l = sw
	c := s.waiter(1, "through a core.Switch, with nothing available")
	s.l = inner
	s.queues(1, "with a waiter of a core.Switch")
	start := time.Now()
	sw.Set(core.Unlimited())
	s.atOnce(start, "Set of a core.Switch in which a request waits")
	synctest.Wait()
	c.wantGrant("after Set(core.Unlimited()) of a core.Switch in which it waited")
	s.queues(0, "after a core.Switch took its waiter out")
	lease.Release()
	s.restock()
	s.has(s.Limit, "after a core.Switch took its waiter out, and everything came back")
}
