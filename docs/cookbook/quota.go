package cookbook

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

// Quota returns a partner's quota of 10,000 requests an hour, shared by all processes that use the same
// Redis server. While Redis is unreachable, each process grants a twentieth of the quota on its own.
func Quota(client *redis.Client, partner string) (*redislimit.Limiter, error) {
	hourly := core.FixedWindowOptions{Name: partner, PermitLimit: 10_000, Window: time.Hour}
	local := hourly
	local.PermitLimit /= 20
	alone, err := core.NewFixedWindow(local)
	if err != nil {
		return nil, err
	}
	return redislimit.New(hourly, redislimit.Options{
		Store:       goredis.New(client),
		Key:         "partner/" + partner,
		Unavailable: redislimit.UseLocal,
		Local:       alone,
	})
}
