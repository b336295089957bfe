package worker

import (
	"fmt"
	"log/slog"
)

// Statistics is what a pool counts, all at one instant: each task that was accepted is
// queued, runs, or is done.
type Statistics struct {
	Running  int    // tasks that hold a lease
	Queued   int    // tasks accepted that have no lease yet
	Done     uint64 // tasks that ended, in whatever way
	Failed   uint64 // of these: returned an error, called runtime.Goexit, or never started
	Panicked uint64 // of these: panicked
}

// String returns the counts on one line.
func (s Statistics) String() string {
	return fmt.Sprintf("%d running, %d queued, %d done, %d failed, %d panicked",
		s.Running, s.Queued, s.Done, s.Failed, s.Panicked)
}

// LogValue implements [slog.LogValuer]: a group of the five counts.
func (s Statistics) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("running", s.Running),
		slog.Int("queued", s.Queued),
		slog.Uint64("done", s.Done),
		slog.Uint64("failed", s.Failed),
		slog.Uint64("panicked", s.Panicked),
	)
}
