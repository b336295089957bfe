package policy

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// recentLog keeps a Logger from being flooded: it logs each message at most once a second per policy.
type recentLog struct{ events sync.Map } // maps events to *Sometimes

type event struct{ message, policy string }

const logInterval, warnInterval = time.Second, time.Minute

// warn logs that an option is without effect.
func (l *recentLog) warn(ctx context.Context, logger *slog.Logger, e event) {
	s, _ := l.events.LoadOrStore(e, new(Sometimes))
	if _, ok := s.(*Sometimes).Allow(warnInterval); ok {
		logger.LogAttrs(ctx, slog.LevelWarn, e.message, slog.String("policy", e.policy))
	}
}

// log logs err, unless logger is nil or has had the same event within the last second.
func (l *recentLog) log(ctx context.Context, logger *slog.Logger, level slog.Level, e event, err error) {
	if logger == nil {
		return
	}
	s, _ := l.events.LoadOrStore(e, new(Sometimes))
	if others, ok := s.(*Sometimes).Allow(logInterval); ok {
		logger.LogAttrs(ctx, level, e.message,
			slog.String("policy", e.policy), slog.Any("error", err), slog.Int("others", others))
	}
}
