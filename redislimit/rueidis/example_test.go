package rueidis_test

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	client "github.com/redis/rueidis"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/rueidis"
)

func ExampleNew() {
	server := miniredis.NewMiniRedis() // in place of your Redis
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()

	c, err := client.NewClient(client.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	limiter, err := redislimit.New(core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}, redislimit.Options{Store: rueidis.New(c), Key: "orders", Timeout: time.Second})
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
