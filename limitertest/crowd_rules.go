package limitertest

import (
	"context"
	"sync"
	"sync/atomic"
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

// manyAtOnce wants concurrent callers to get all permits, and no more.
func manyAtOnce(s *subject) {
	n := max(1, s.Limit/64)
	var mu sync.Mutex
	var leases []core.Lease
	take := func() bool {
		l := s.l.TryAcquire(n)
		if l.Acquired() {
			mu.Lock()
			leases = append(leases, l)
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
	s.leases = append(s.leases, leases...)
	if got, want := len(leases), s.Limit/n; got != want {
		s.errorf("%d goroutines took %d permits each, as long as there were: %d grants, want %d of %d permits", crowd, n, got, want, s.Limit)
	}
	s.has(s.Limit%n, "after many callers took all permits")
}

// neverMoreHeld wants no more permits to be held than the limit, however requests and releases
// interleave.
func neverMoreHeld(s *subject) {
	const turns = 40
	var held, most atomic.Int64
	crowded(turns, func(g, i int) {
		n := 1 + (g*turns+i*7)%min(s.Limit, 5)
		l, ok := s.turn(n, g+i)
		if !ok {
			return
		}
		now := held.Add(int64(n))
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
		wait(time.Duration(i%3) * time.Microsecond)
		held.Add(-int64(n))
		l.Release()
	})
	if m := most.Load(); m > int64(s.Limit) {
		s.errorf("%d goroutines held %d permits at the same time, want %d at most", crowd, m, s.Limit)
	}
	s.refill()
	s.has(s.Limit, "after all leases were released")
	s.queues(0, "after all callers have returned")
}

// releaseComesBefore wants a goroutine that holds all permits to see what their previous holder wrote.
// The sum shows that holders exclude each other; the race detector checks the order of memory.
func releaseComesBefore(s *subject) {
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

// countsOnlyGrow wants Granted and Rejected never to fall, even under concurrent grants, rejections
// and cancellations: an exporter treats a decrease as a restart.
func countsOnlyGrow(s *subject) {
	var mu sync.Mutex
	last, _ := s.counts()
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		st, _ := s.counts()
		if st.Granted < last.Granted || st.Rejected < last.Rejected {
			s.errorf("Statistics went from %v to %v, want Granted and Rejected to grow alone", last, st)
		}
		last = st
	}
	crowded(40, func(g, i int) {
		l, ok := s.turn(1+i%min(s.Limit, 3), g+i)
		look()
		if ok {
			l.Release()
		}
	})
}

// turn takes n permits in one way or another.
func (s *subject) turn(n, way int) (core.Lease, bool) {
	if way%3 == 0 {
		l := s.l.TryAcquire(n)
		return l, l.Acquired()
	}
	limit := time.Duration(way%4) * time.Microsecond
	if s.Refill > 0 {
		limit += s.Refill * time.Duration(way%4)
	}
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	l, err := s.l.Acquire(ctx, n)
	return l, err == nil
}
