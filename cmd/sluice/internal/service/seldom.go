package service

import (
	"fmt"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
)

// Seldom prints messages about something that may happen at each request as often as a limit allows, and counts those that it
// suppresses. Use [NewSeldom] to create one.
type Seldom struct {
	say        func(format string, args ...any)
	permits    *core.TokenBucket
	suppressed atomic.Int64
}

// NewSeldom returns a Seldom that prints with say at the rate of o, which must be valid.
func NewSeldom(say func(format string, args ...any), o core.TokenBucketOptions) *Seldom {
	return &Seldom{say: say, permits: core.Must(core.NewTokenBucket(o))}
}

// Say prints a message, with the number of messages that were suppressed before it, or suppresses it.
func (s *Seldom) Say(format string, args ...any) {
	if !s.permits.TryAcquire(1).Acquired() {
		s.suppressed.Add(1)
		return
	}
	s.say("%s%s", fmt.Sprintf(format, args...), Suppressed(s.suppressed.Swap(0)))
}

// Suppressed says how many messages were suppressed; "" if none were.
func Suppressed(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d similar messages suppressed)", n)
}
