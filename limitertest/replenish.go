package limitertest

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// replenishment expects permits to come back when they should, also after a long time, and never more than the limit.
func replenishment(s *subject) {
	s.comeBack()
	rate(s)
	s.refill()
	s.pass(100 * s.Refill) // a whole number of windows
	for range 3 {
		s.refill()
	}
	s.has(s.Limit, "after a long time")
	s.comeBack()
}

// comeBack takes all permits, and expects them to be back after Refill, not earlier, or if that is manual in the next
// TryReplenish.
func (s *subject) comeBack() {
	s.empties()
	s.has(0, "after all permits were taken together")
	s.release()
	if s.Manual {
		if s.replenish() {
			s.errorf("TryReplenish() with nothing due: true, want false")
		}
		s.pass(10 * s.Refill)
		s.has(0, "before TryReplenish")
		if !s.replenish() {
			s.errorf("TryReplenish() with all permits due: false, want true")
		}
	} else {
		s.pass(s.Refill - s.grain())
		if got := s.l.Available(); got >= s.Limit {
			s.errorf("Available() just before Refill: %d, want less than %d", got, s.Limit)
		}
		s.pass(s.grain())
	}
	if r, ok := s.l.(core.Replenisher); ok && replenishes(s.l) {
		if r.AutoReplenishing() == s.Manual {
			s.errorf("AutoReplenishing(): %v, want %v", !s.Manual, s.Manual)
		}
		if r.TryReplenish() {
			s.errorf("TryReplenish() with nothing due: true, want false")
		}
	}
	s.has(s.Limit, "after Refill")
}

// rate expects a limiter from which everything is taken as soon as it is back to grant no more than its rate allows. Of n
// Refills a window grants the limit n+1 times. A bucket whose period brings nearly the whole limit brings nearly twice the
// limit per Refill.
func rate(s *subject) {
	const refills, steps = 3, 32
	step := max(s.Refill/steps, s.grain())
	most := int64(min(s.Limit, math.MaxInt/(2*refills+1))) * (2*refills + 1)
	granted := int64(0)
	for start := time.Now(); time.Since(start) < refills*s.Refill; s.pass(step) {
		if s.Manual {
			s.replenish()
		}
		if n := s.l.Available(); n > 0 {
			granted += int64(s.takes(n).Permits())
			s.release()
		}
		if s.Limit < math.MaxInt/(2*refills+1) && granted > most {
			s.fatalf("%d permits granted in %v, want at most %d: %d come back in %v", granted, time.Since(start), most, s.Limit, s.Refill)
		}
	}
	s.pass(s.Refill)
}

// idleFor expects the limiter to be idle for at least as long as it has been seen idle, and no
// longer than all permits have been available.
func idleFor(s *subject) {
	idler := s.l.(core.Idler)
	look := func(want bool, when string) time.Duration {
		d, got := idler.IdleFor()
		if got != want || d < 0 || !got && d > 0 {
			s.errorf("IdleFor() %s: %v, %v, want idle to be %v", when, d, got, want)
		}
		return d
	}
	idle := func(since time.Time, when string) {
		seen, first := time.Now(), look(true, when)
		s.pass(time.Second)
		d := look(true, when)
		least, most := time.Since(seen), time.Since(since)
		if d <= least-s.grain() || d >= most+s.grain() {
			s.errorf("IdleFor() %s, first %v and then %v: want %v at least, %v at most", when, first, d, least, most)
		}
	}
	idle(s.made, "of a new limiter")
	if s.unlimited() {
		return
	}
	s.takes(1)
	look(false, "with a permit taken")
	last := time.Now()
	s.restock()
	idle(last, "with all permits back")
}
