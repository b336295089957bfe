package core

import (
	"fmt"
	"log/slog"
)

// Statistics is a snapshot of a limiter's state and counts. Each field was correct at some
// instant during the call.
type Statistics struct {
	Limit     int    // permit limit in force
	Available int    // permits that could be taken now
	Queued    int    // permits (not requests) waiting
	Granted   uint64 // leases granted, those of zero permits included
	Rejected  uint64 // requests rejected: failed tries, full queue, evictions, deadlines too soon
}

// String returns the fields on one line.
func (s Statistics) String() string {
	return fmt.Sprintf("%d of %d available, %d queued, %d granted, %d rejected",
		s.Available, s.Limit, s.Queued, s.Granted, s.Rejected)
}

// LogValue implements [slog.LogValuer]: a group of the five fields.
func (s Statistics) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("limit", s.Limit),
		slog.Int("available", s.Available),
		slog.Int("queued", s.Queued),
		slog.Uint64("granted", s.Granted),
		slog.Uint64("rejected", s.Rejected),
	)
}
