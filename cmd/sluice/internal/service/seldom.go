package service

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
)

// Seldom lets log messages pass about something that may happen at each request, at a rate, and counts those that it suppresses. The
// zero Seldom is ready for use.
type Seldom struct {
	once       sync.Once
	permits    *core.TokenBucket
	suppressed atomic.Int64
}

// Allow reports whether a message may be printed, and how many were suppressed since the last one. o is the rate, which must be valid
// and the same for each call.
func (s *Seldom) Allow(o core.TokenBucketOptions) (suppressed int, ok bool) {
	s.once.Do(func() { s.permits = core.Must(core.NewTokenBucket(o)) })
	if !s.permits.TryAcquire(1).Acquired() {
		s.suppressed.Add(1)
		return 0, false
	}
	return int(s.suppressed.Swap(0)), true
}

// Suppressed says how many messages were suppressed; "" if none were.
func Suppressed(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d similar messages suppressed)", n)
}
