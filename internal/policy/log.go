package policy

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// recentLog remembers what was logged, so that a Logger is not flooded: at most one record a second for
// each message and policy. The zero recentLog has logged nothing.
type recentLog struct {
	mu     sync.Mutex // guards what follows
	events map[event]*Seldom
}

type event struct{ message, policy string }

const logEvery = time.Second

// log logs err, unless logger is nil or has had such an event too recently.
func (l *recentLog) log(ctx context.Context, logger *slog.Logger, level slog.Level, e event, err error) {
	if logger == nil {
		return
	}
	if others, ok := l.of(e).Lets(logEvery); ok {
		logger.LogAttrs(ctx, level, e.message,
			slog.String("policy", e.policy), slog.Any("error", err), slog.Int("others", others))
	}
}

func (l *recentLog) of(e event) *Seldom {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.events[e]
	if s == nil {
		s = new(Seldom)
		if l.events == nil {
			l.events = make(map[event]*Seldom)
		}
		l.events[e] = s
	}
	return s
}
