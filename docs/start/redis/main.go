// First serves an API that each customer may call 100 times a second, on any number of machines.
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

// customers maps each issued API key to its customer. Requests without a known key get the empty name and share one limit.
var customers = map[string]string{"key-of-ann": "ann", "key-of-bob": "bob"}

func customer(r *http.Request) string { return customers[r.Header.Get("X-Api-Key")] }

func api(w http.ResponseWriter, r *http.Request) {
	if customer(r) == "" {
		http.Error(w, "unknown API key", http.StatusUnauthorized)
		return
	}
	_, _ = fmt.Fprintln(w, "hello", customer(r))
}

func main() {
	store := goredis.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", DialerRetries: 1}))
	redislimit.Watch(store, func(up bool, err error) { // while it is down, FailOpen grants every request
		log.Print("Redis is reachable: ", up, ", ", err)
	})
	perCustomer := core.Must(partition.New(partition.Options[*http.Request, string]{
		Key: customer,
		New: func(name string) (core.Limiter, error) {
			return redislimit.New(core.PerSecond(100, 20), redislimit.Options{Store: store, Key: "customer/" + name, Unavailable: redislimit.FailOpen})
		},
	}))
	limits := core.Must(httplimit.New(httplimit.Options{Global: &httplimit.Policy{Limiter: perCustomer}}))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", limits.Handler(http.HandlerFunc(api))))
}
