// Package before shares limits between processes with github.com/go-redis/redis_rate.
package before

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// Limits allows each user 10 calls a minute, in all processes together.
type Limits struct{ limiter *redis_rate.Limiter }

// NewLimits returns Limits with their state in Redis.
func NewLimits(client *redis.Client) *Limits {
	return &Limits{redis_rate.NewLimiter(client)}
}

// Try reports whether a user may call now, and if not, when to retry.
func (l *Limits) Try(ctx context.Context, user string) (retryAfter time.Duration, ok bool, err error) {
	result, err := l.limiter.Allow(ctx, "user:"+user, redis_rate.PerMinute(10))
	if err != nil {
		return 0, false, err
	}
	return max(result.RetryAfter, 0), result.Allowed > 0, nil
}
