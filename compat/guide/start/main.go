// First is an API that each customer may call 100 times a second.
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

func main() {
	limit, err := spec.Parse("100/s burst 20")
	if err != nil {
		log.Fatal(err)
	}
	customers, err := partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHeader("X-Api-Key"),
		New: func(string) (core.Limiter, error) { return limit.New("customer") },
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
