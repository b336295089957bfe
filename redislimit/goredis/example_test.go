package goredis_test

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

func ExampleNew() {
	server := miniredis.NewMiniRedis() // in place of your Redis
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()

	client := redis.NewClient(&redis.Options{Addr: server.Addr(), DialerRetries: 1})
	defer client.Close()
	limiter, err := redislimit.New(core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}, redislimit.Options{Store: goredis.New(client), Key: "orders", Timeout: time.Second})
	if err != nil {
		panic(err)
	}
	defer limiter.Close()

	for range 3 {
		fmt.Println(limiter.TryAcquire(1).Acquired())
	}
	// Output:
	// true
	// true
	// false
}
