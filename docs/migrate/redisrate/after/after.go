// Package after shares limits between processes with redislimit.
package after

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

// Limits allows each user 10 calls a minute, in all processes together.
type Limits struct {
	users *partition.Keyed[string, string]
}

// NewLimits returns Limits with their state on a Redis server.
func NewLimits(client *redis.Client) (*Limits, error) {
	store := goredis.New(client)
	users, err := partition.New(partition.Options[string, string]{
		Key: func(user string) string { return user },
		New: func(user string) (core.Limiter, error) {
			return redislimit.New(core.Every(6*time.Second, 10), redislimit.Options{Store: store, Key: "user:" + user, Prefetch: 1})
		},
	})
	return &Limits{users}, err
}

// Try reports whether a user may call now, and if not, when to retry.
func (l *Limits) Try(user string) (retryAfter time.Duration, ok bool, err error) {
	lease := l.users.TryAcquire(user, 1)
	if err := lease.Err(); err != nil && !errors.Is(err, core.ErrRejected) {
		return 0, false, err
	}
	retryAfter, _ = core.RetryAfter.From(lease)
	return retryAfter, lease.Acquired(), nil
}

// Close returns prefetched permits and stops the limiters.
func (l *Limits) Close() error { return l.users.Close() }
