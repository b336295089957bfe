package worker

import (
	"fmt"
	"log/slog"
)

// Statistics are the counts of a pool at one time. Each accepted task is counted in
// exactly one of Running, Queued and Done.
type Statistics struct {
	Running  int    // tasks that have a lease; may briefly exceed the limit when a task ends
	Queued   int    // tasks that have no lease yet
	Done     uint64 // tasks that have ended, including tasks that never ran
	Failed   uint64 // tasks in Done that returned an error, called runtime.Goexit or never ran
	Panicked uint64 // tasks in Done that panicked
}

// String returns a human-readable line: the counts.
func (s Statistics) String() string {
	return fmt.Sprintf("%d running, %d queued, %d done, %d failed, %d panicked",
		s.Running, s.Queued, s.Done, s.Failed, s.Panicked)
}

// LogValue implements [slog.LogValuer]. It returns a group of the five counts.
func (s Statistics) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("running", s.Running),
		slog.Int("queued", s.Queued),
		slog.Uint64("done", s.Done),
		slog.Uint64("failed", s.Failed),
		slog.Uint64("panicked", s.Panicked),
	)
}
