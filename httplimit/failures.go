package httplimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// failures tells a logger of a policy's failures, without flooding it.
type failures struct {
	mu     sync.Mutex // guards what follows
	last   time.Time  // when the logger was told
	others int        // failures since then
}

const failuresEvery = time.Second

func (f *failures) log(ctx context.Context, logger *slog.Logger, policy string, err error) {
	if logger == nil {
		return
	}
	now := time.Now()
	f.mu.Lock()
	// A clock that went back, as into a synctest bubble, keeps nobody silent.
	since := now.Sub(f.last)
	if tell := f.last.IsZero() || since >= failuresEvery || since < 0; !tell {
		f.others++
		f.mu.Unlock()
		return
	}
	others := f.others
	f.last, f.others = now, 0
	f.mu.Unlock()
	logger.LogAttrs(ctx, slog.LevelError, "httplimit: a limiter failed",
		slog.String("policy", policy), slog.Any("error", err), slog.Int("others", others))
}
