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
	return last&1 != 0 && s.isFresh(last)
}

// open reports whether the last reading allows a grant, stale or not.
func (s *Shed) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && !s.gate.Acquired()
}

// isFresh reports whether a reading is not stale. One from the future is: the clock is
// another than then.
func (s *Shed) isFresh(last int64) bool {
	return last != unread && uint64(s.clock()-last>>1) < uint64(s.o.Every)
}

func (s *Shed) clock() int64 { return int64(time.Since(s.base)) }

// refresh returns when there is a reading that is not stale, or an old one while somebody else
// reads. For the very first it waits, until a context is done, whose Done is called only then; nil
// waits on.
func (s *Shed) refresh(done func() <-chan struct{}) {
	for {
		s.mu.Lock()
		last, reading := s.last.Load(), s.reading
		enough := s.closed || s.isFresh(last) || reading != nil && last != unread
		if !enough && reading == nil {
			s.reading = make(chan struct{})
		}
		s.mu.Unlock()
		switch {
		case enough:
			return
		case reading == nil:
			s.read()
			return
		}
		var over <-chan struct{}
		if done != nil {
			over = done()
		}
		select {
		case <-reading: // or the sensor panicked, and this is the next to try
		case <-over:
			return
		}
	}
}

// read reads the sensor; the caller has set reading.
func (s *Shed) read() {
	value, done := math.NaN(), false
	defer func() { s.note(value, done) }()
	value = s.o.Probe()
	done = true
}

// note takes note of a reading, if the sensor is done and did not panic.
func (s *Shed) note(value float64, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if done {
		switch {
		case value >= s.o.Above:
			s.shutLocked()
		case value < s.o.Resume:
			s.openLocked()
		}
		last := s.clock() << 1
		if !s.gate.Acquired() {
			last |= 1
		}
		s.last.Store(last)
	}
	close(s.reading)
	s.reading = nil
	s.setTimerLocked()
}

// shutLocked has requests wait in inner, or be rejected.
func (s *Shed) shutLocked() {
	if s.gate.Acquired() {
		return
	}
	if s.gate = s.inner.TryAcquire(1); s.gate.Acquired() {
		s.gates++
		s.moved.Resize(1)
	}
}

// openLocked has inner grant all that wait.
func (s *Shed) openLocked() {
	if s.gate.Acquired() {
		s.moved.Resize(math.MaxInt)
		s.gate.Release()
		s.gate = core.Lease{}
	}
}

// setTimerLocked sets the timer to the instant at which the reading is stale if requests wait, and
// drops it if none does.
func (s *Shed) setTimerLocked() {
	if s.waiting == 0 || s.closed {
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

// ring is called by the timer. It reads the sensor, unless that has been done, or is being
// done: then the other reader sets the timer again.
func (s *Shed) ring() {
	s.mu.Lock()
	if s.timer == nil || s.reading != nil {
		s.mu.Unlock()
		return
	}
	if s.isFresh(s.last.Load()) {
		s.setTimerLocked()
		s.mu.Unlock()
		return
	}
	s.reading = make(chan struct{})
	s.mu.Unlock()
	s.read()
}
