// Package after shares limits between processes with redislimit.
package after

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

// Limits allows each user 10 calls a minute, in all processes together.
type Limits struct{ store redislimit.Store }

// NewLimits returns Limits with their state in Redis.
func NewLimits(client *redis.Client) *Limits {
	return &Limits{goredis.New(client)}
}

// Try reports whether a user may call now, and if not, when to retry.
func (l *Limits) Try(ctx context.Context, user string) (retryAfter time.Duration, ok bool, err error) {
	lease, err := redislimit.Take(ctx, l.store, "user:"+user, core.Every(6*time.Second, 10), 1)
	if err != nil && !errors.Is(err, core.ErrRejected) {
		return 0, false, err
	}
	retryAfter, _ = core.RetryAfter.From(lease)
	return retryAfter, lease.Acquired(), nil
}
