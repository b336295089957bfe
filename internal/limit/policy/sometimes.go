package policy

import (
	"sync"
	"time"
)

// Sometimes allows something once per interval, such as a log message, and counts what it suppressed. The zero
// Sometimes has allowed nothing yet. It is safe for concurrent use.
type Sometimes struct {
	mu         sync.Mutex
	last       time.Time // when Allow last returned true
	suppressed int       // calls since then
}

// Allow reports whether interval has passed since it last returned true, and returns how many calls it has
// suppressed in between.
func (s *Sometimes) Allow(interval time.Duration) (suppressed int, ok bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	// A clock that is set back, as into a synctest bubble, must not suppress everything.
	if passed := now.Sub(s.last); !s.last.IsZero() && passed >= 0 && passed < interval {
		s.suppressed++
		return 0, false
	}
	suppressed = s.suppressed
	s.last, s.suppressed = now, 0
	return suppressed, true
}
