package adaptive

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// What a Shed reads, and when.

// grants reports whether the reading is not stale and allows a grant.
func (s *Shed) grants() bool {
	last := s.last.Load()
	return last&1 != 0 && s.fresh(last, s.clock())
}

// fresh reports whether a reading is not stale. One from the future is: the clock is
// another than then.
func (s *Shed) fresh(last, now int64) bool {
	return last != unread && uint64(now-last>>1) < uint64(s.o.Every)
}

func (s *Shed) clock() int64 { return int64(time.Since(s.base)) }

// refresh sees to it that there is a reading that is not stale, or that somebody else
// does; it waits for the first of all, unless done ends that. A Done is asked for only then:
// who made the context may take it that the caller waits.
func (s *Shed) refresh(done func() <-chan struct{}) {
	for {
		s.mu.Lock()
		last := s.last.Load()
		if s.closed || s.o.Probe == nil || s.fresh(last, s.clock()) || s.reading && last != unread {
			s.mu.Unlock()
			return
		}
		if !s.reading {
			s.reading = true
			if last == unread {
				s.first = make(chan struct{})
			}
			s.mu.Unlock()
			s.read()
			return
		}
		first := s.first
		s.mu.Unlock()
		var ended <-chan struct{}
		if done != nil {
			ended = done()
		}
		select {
		case <-first: // or it panicked, and this is the next to try
		case <-ended:
			return
		}
	}
}

// read runs the probe; the caller has set reading.
func (s *Shed) read() {
	value, ended := math.NaN(), false
	defer func() { s.note(value, ended) }()
	value = s.o.Probe()
	ended = true
}

// note takes note of a reading, and serves who waits if it allows that. ended: it is one;
// the probe did not panic.
func (s *Shed) note(value float64, ended bool) {
	s.mu.Lock()
	s.reading = false
	if ended && !s.closed {
		switch {
		case value >= s.o.Above:
			s.shut = true
		case value < s.o.Resume:
			s.shut = false
		}
		last := s.clock() << 1
		if !s.shut {
			last |= 1
		}
		s.last.Store(last)
	}
	if s.first != nil {
		close(s.first)
		s.first = nil
	}
	var served []*waiter
	if !s.shut && ended {
		served = s.serveLocked(func(w *waiter) core.Lease { return s.grant(w.n) })
	}
	s.setTimerLocked()
	s.mu.Unlock()
	wake(served)
}

// ring is what the timer does: it reads the probe, unless that has been done, or is being
// done; then whoever does it sets the timer again.
func (s *Shed) ring() {
	s.mu.Lock()
	if s.timer == nil || s.reading {
		s.mu.Unlock()
		return
	}
	if s.fresh(s.last.Load(), s.clock()) {
		s.setTimerLocked()
		s.mu.Unlock()
		return
	}
	s.reading = true
	s.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			s.hand(p)
		}
	}()
	s.read()
}

// hand gives a panic of the probe to the one that would be served first. If nobody waits
// any more the next caller will meet the same.
func (s *Shed) hand(p any) {
	s.mu.Lock()
	w := s.nextLocked()
	if w != nil {
		s.removeLocked(w)
		w.panic = p
	}
	s.setTimerLocked()
	s.mu.Unlock()
	if w != nil {
		close(w.decided)
	}
}
