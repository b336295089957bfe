package wait

import "sync"

// Signal is a condition variable whose wait can be ended: calls that find a condition false wait for a
// Send with the mutex that guards the condition, and then check it again. Sends in quick succession may
// wake a single waiter, so a waiter that leaves the condition true for others must Send again. The zero
// Signal is ready.
//
// A Signal belongs to the testing/synctest bubble in which a call first waits.
type Signal struct {
	wake    chan struct{} // of capacity 1; nil until a call waits
	waiting int           // waiters without a Send of their own
}

// Wait unlocks mu, waits for a Send or for the end of done, which may be nil, and locks mu again. It
// returns false if done ended the wait; a Send that came too late for it then wakes another waiter.
func (s *Signal) Wait(mu sync.Locker, done <-chan struct{}) bool {
	if s.wake == nil {
		s.wake = make(chan struct{}, 1)
	}
	s.waiting++
	mu.Unlock()
	if done == nil {
		<-s.wake
		mu.Lock()
		return true
	}
	select {
	case <-s.wake:
		mu.Lock()
		return true
	case <-done:
	}
	mu.Lock()
	select {
	case <-s.wake:
		s.Send()
	default:
		s.waiting--
	}
	return false
}

// Send wakes a waiter, if there is one. The caller holds the mutex that the waiters give to Wait.
func (s *Signal) Send() {
	if s.waiting == 0 {
		return
	}
	select {
	case s.wake <- struct{}{}:
		s.waiting--
	default: // a waiter is being woken
	}
}
