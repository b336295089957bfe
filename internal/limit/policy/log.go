package policy

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// recentLog keeps a Logger from being flooded: it logs each message once in a while per policy.
type recentLog struct{ events sync.Map } // maps events to *Sometimes

type event struct{ message, policy string }

// How often an event is logged: a limiter's error, and an option that is without effect.
const logInterval, warnInterval = time.Second, time.Minute

// log logs an event, and err unless it is nil. It does not if logger is nil, or if the event was logged within the interval.
func (l *recentLog) log(ctx context.Context, logger *slog.Logger, level slog.Level, interval time.Duration, e event, err error) {
	if logger == nil {
		return
	}
	s, _ := l.events.LoadOrStore(e, new(Sometimes))
	others, ok := s.(*Sometimes).Allow(interval)
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("policy", e.policy)}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err), slog.Int("others", others))
	}
	logger.LogAttrs(ctx, level, e.message, attrs...)
}
