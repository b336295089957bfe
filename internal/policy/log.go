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
	mu   sync.Mutex // guards what follows
	last map[event]*logged
}

type event struct{ message, policy string }

type logged struct {
	at     time.Time
	others int // since then, not logged
}

const logEvery = time.Second

// log logs err, unless logger is nil or has had such an event too recently.
func (l *recentLog) log(ctx context.Context, logger *slog.Logger, level slog.Level, e event, err error) {
	if logger == nil {
		return
	}
	if others, ok := l.note(e); ok {
		logger.LogAttrs(ctx, level, e.message,
			slog.String("policy", e.policy), slog.Any("error", err), slog.Int("others", others))
	}
}

// note returns how many such events were not logged since the last one that was; false if that was too
// recently.
func (l *recentLog) note(e event) (others int, ok bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last[e]
	// A clock that goes back, as into a synctest bubble, silences nobody.
	if last != nil && now.Sub(last.at) < logEvery && now.Sub(last.at) >= 0 {
		last.others++
		return 0, false
	}
	if last != nil {
		others = last.others
	}
	if l.last == nil {
		l.last = make(map[event]*logged)
	}
	l.last[e] = &logged{at: now}
	return others, true
}
