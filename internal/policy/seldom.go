package policy

import (
	"sync"
	"time"
)

// Seldom lets something happen once in a while, such as a line of a log, and counts the times that it did
// not let it. The zero Seldom has let nothing happen. It is safe for concurrent use.
type Seldom struct {
	mu     sync.Mutex
	at     time.Time // when it did last
	others int       // since then
}

// Lets reports whether something may happen now that may happen once in that time, and how often it was not
// let since the last time that it was.
func (s *Seldom) Lets(once time.Duration) (others int, ok bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	// A clock that goes back, as into a synctest bubble, silences nobody.
	if passed := now.Sub(s.at); !s.at.IsZero() && passed >= 0 && passed < once {
		s.others++
		return 0, false
	}
	others = s.others
	s.at, s.others = now, 0
	return others, true
}
