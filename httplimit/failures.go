package httplimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// failures tells the Logger of limiters that fail, and of rejections in shadow, without flooding
// it: at most once a second for each policy and kind.
type failures struct {
	mu   sync.Mutex // guards what follows
	last map[failure]*logged
}

type failure struct {
	kind   kind
	policy string
}

// kind is what the Logger is told.
type kind uint8

const (
	failed kind = iota
	shadowed
)

func (k kind) message() (slog.Level, string) {
	if k == shadowed {
		return slog.LevelWarn, "httplimit: a policy in shadow would have rejected"
	}
	return slog.LevelError, "httplimit: a limiter failed"
}

type logged struct {
	at     time.Time
	others int // since then
}

const failuresEvery = time.Second

func (f *failures) log(ctx context.Context, logger *slog.Logger, k kind, policy string, err error) {
	if logger == nil {
		return
	}
	others, ok := f.note(failure{k, policy})
	if !ok {
		return
	}
	level, message := k.message()
	logger.LogAttrs(ctx, level, message,
		slog.String("policy", policy), slog.Any("error", err), slog.Int("others", others))
}

// note returns how many there were since the Logger was last told; false if that was too recently.
func (f *failures) note(key failure) (others int, ok bool) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.last[key]
	// A clock that goes back, as into a synctest bubble, silences nobody.
	if l != nil && now.Sub(l.at) < failuresEvery && now.Sub(l.at) >= 0 {
		l.others++
		return 0, false
	}
	if l != nil {
		others = l.others
	}
	if f.last == nil {
		f.last = make(map[failure]*logged)
	}
	f.last[key] = &logged{at: now}
	return others, true
}
