package adaptive

import (
	"container/list"
	"context"
	"time"

	"github.com/sluice-go/sluice/core"
)

// waiter is an Acquire that waits. The Shed's mutex guards it until it is decided.
type waiter struct {
	n       int
	in      *list.List // nil: decided
	at      *list.Element
	lease   core.Lease
	panic   any // what the probe panicked with
	decided chan struct{}
}

// await blocks until w is decided or ctx is done.
func (s *Shed) await(ctx context.Context, w *waiter) (core.Lease, error) {
	select {
	case <-w.decided:
	case <-ctx.Done():
		s.mu.Lock()
		waiting := w.in != nil
		if waiting {
			s.removeLocked(w)
			s.setTimerLocked()
		}
		s.mu.Unlock()
		if waiting {
			return core.Refuse(ctx.Err()), ctx.Err()
		}
		<-w.decided
	}
	if w.panic != nil {
		panic(w.panic)
	}
	if err := ctx.Err(); err != nil && w.lease.Acquired() {
		s.granted.Add(^uint64(0)) // whoever was done before the grant must not be told of it
		return core.Refuse(err), err
	}
	return w.lease, w.lease.Err()
}

// serveLocked decides all waiters, in their order.
func (s *Shed) serveLocked(lease func(*waiter) core.Lease) []*waiter {
	var served []*waiter
	for w := s.nextLocked(); w != nil; w = s.nextLocked() {
		s.removeLocked(w)
		w.lease = lease(w)
		served = append(served, w)
	}
	return served
}

// nextLocked returns the waiter that is served next, those that want permits first; nil if
// nobody waits.
func (s *Shed) nextLocked() *waiter {
	e := s.queue.Front()
	if s.o.QueueOrder == core.NewestFirst {
		e = s.queue.Back()
	}
	if e == nil {
		e = s.probes.Front()
	}
	if e == nil {
		return nil
	}
	return e.Value.(*waiter)
}

// wake tells waiters that they are decided. No lock is held: who wakes may want it.
func wake(decided []*waiter) {
	for _, w := range decided {
		close(w.decided)
	}
}

// decide returns the lease, or a waiter in the queue.
func (s *Shed) decide(n int) (core.Lease, *waiter) {
	s.mu.Lock()
	var evicted []*waiter
	defer func() {
		s.mu.Unlock()
		wake(evicted)
	}()
	switch {
	case s.closed || s.o.Probe == nil:
		return core.Refuse(core.ErrClosed), nil
	case !s.shut:
		return s.grant(n), nil
	}
	newest := s.o.QueueOrder == core.NewestFirst
	if n > s.o.QueueLimit || n > s.o.QueueLimit-s.queued && !newest {
		return s.reject(n, "queue limit reached"), nil
	}
	for n > s.o.QueueLimit-s.queued {
		w := s.queue.Front().Value.(*waiter)
		s.removeLocked(w)
		w.lease = s.reject(w.n, "evicted by a newer request")
		evicted = append(evicted, w)
	}
	w := &waiter{n: n, in: &s.queue, decided: make(chan struct{})}
	if n == 0 {
		w.in = &s.probes
	}
	w.at = w.in.PushBack(w)
	s.queued += n
	if s.timer == nil {
		s.setTimerLocked()
	}
	return core.Lease{}, w
}

// removeLocked takes w out of the queue: it is decided.
func (s *Shed) removeLocked(w *waiter) {
	w.in.Remove(w.at)
	w.in, w.at = nil, nil
	s.queued -= w.n
}

// setTimerLocked sets the timer to the instant at which the reading is stale if somebody
// waits, and lets go of it if nobody does.
func (s *Shed) setTimerLocked() {
	if s.queue.Len()+s.probes.Len() == 0 {
		if s.timer != nil {
			s.timer.Stop()
			s.timer = nil
		}
		return
	}
	wait := s.o.Every
	if last := s.last.Load(); last != unread {
		if age := time.Duration(s.clock() - last>>1); age > 0 && age < wait {
			wait -= age
		}
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.ring)
	} else {
		s.timer.Reset(wait)
	}
}
