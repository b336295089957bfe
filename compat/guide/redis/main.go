// First is an API that each customer may call 100 times a second, on however many machines it runs.
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

func main() {
	store := goredis.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}))
	customers, err := partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHeader("X-Api-Key"),
		New: func(key string) (core.Limiter, error) {
			return redislimit.NewTokenBucket(redislimit.TokenBucketOptions{
				TokenBucketOptions: core.PerSecond(100, 20),
				Shared:             redislimit.Shared{Store: store, Key: "customer/" + key, Down: redislimit.DownAllow},
			})
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	limits, err := httplimit.New(httplimit.Options{Global: &httplimit.Policy{Limiter: customers}})
	if err != nil {
		log.Fatal(err)
	}
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "hello") })
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", limits.Handler(api)))
}
