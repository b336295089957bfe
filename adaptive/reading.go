package adaptive

import (
	"math"
	"time"
)

// Reading the sensor of a Shed.

// grants reports whether the last reading allows a grant. If that reading is stale, it reads the sensor first, unless
// another caller does.
func (s *Shed) grants(done func() <-chan struct{}) bool {
	r := s.last.Load()
	if !s.fresh(r) {
		s.refresh(done)
		r = s.last.Load()
	}
	return r != nil && !r.high
}

// fresh reports whether r is a reading that is not stale. A reading from the future is stale, because it was taken by
// the clock of another synctest bubble.
func (s *Shed) fresh(r *reading) bool {
	if r == nil {
		return false
	}
	age := s.now() - r.at
	return 0 <= age && age < s.o.Interval
}

func (s *Shed) now() time.Duration { return time.Since(s.base) }

// refresh reads the sensor if the last reading is stale and no other caller is reading. Only if there is no reading
// yet, it waits for the other caller, until done, which it calls only then.
func (s *Shed) refresh(done func() <-chan struct{}) {
	for {
		turn, mine := s.takeTurn()
		switch {
		case mine:
			s.read()
			return
		case turn == nil:
			return
		}
		select {
		case <-turn: // there is a reading, or the sensor panicked and the next caller reads it
		case <-done():
			return
		}
	}
}

// never is like Done, but for a request without a context.
func never() <-chan struct{} { return nil }

// takeTurn reports whether it is the caller's turn to read the sensor. If not, it returns the turn that the caller has
// to wait for, or nil if the caller can use the last reading.
func (s *Shed) takeTurn() (turn chan struct{}, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.last.Load()
	switch {
	case s.closed || s.fresh(last):
		return nil, false
	case s.turn == nil:
		s.turn = make(chan struct{})
		return s.turn, true
	case last != nil:
		return nil, false
	}
	return s.turn, false
}

// read reads the sensor and ends the caller's turn, without a reading if the sensor panics.
func (s *Shed) read() {
	value, read := 0.0, false
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return
		}
		if read {
			s.noteLocked(value)
		}
		s.endTurnLocked()
		s.setTimerLocked()
	}()
	value = s.o.Probe()
	read = true
}

// noteLocked compares a reading with the thresholds.
func (s *Shed) noteLocked(value float64) {
	last := s.last.Load()
	wasHigh := last != nil && last.high
	high := wasHigh // between the thresholds, and for NaN
	switch {
	case value >= s.o.Threshold:
		high = true
	case value < s.o.ResumeBelow:
		high = false
	}
	switch {
	case high && !wasHigh:
		s.limit.Resize(0)
	case wasHigh && !high:
		s.limit.Resize(math.MaxInt)
	}
	s.last.Store(&reading{at: s.now(), high: high})
}

func (s *Shed) endTurnLocked() {
	if s.turn != nil {
		close(s.turn)
		s.turn = nil
	}
}

// setTimerLocked sets the timer to the time at which the last reading becomes stale. If no requests wait, it stops
// the timer. The end of each reading sets it again.
func (s *Shed) setTimerLocked() {
	if s.waiting == 0 {
		if s.timer != nil {
			s.timer.Stop()
			s.timer = nil
		}
		return
	}
	wait := s.o.Interval
	if last := s.last.Load(); s.fresh(last) {
		wait -= s.now() - last.at
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, func() { s.refresh(never) })
	} else {
		s.timer.Reset(wait)
	}
}
