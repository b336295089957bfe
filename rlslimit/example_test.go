package rlslimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/sluice-go/sluice/rlslimit"
)

const shop = `domain: shop
descriptors:
- key: remote_address
  rate_limit: {unit: week, requests_per_unit: 2}
`

func Example() {
	config, err := rlslimit.Parse("shop.yaml", []byte(shop))
	if err != nil {
		fmt.Println(err)
		return
	}
	service, err := rlslimit.New(rlslimit.Options{Config: config})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	for range 3 {
		answer, err := service.ShouldRateLimit(context.Background(), &ratelimit.RateLimitRequest{
			Domain: "shop",
			Descriptors: []*envoy.RateLimitDescriptor{{
				Entries: []*envoy.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.1"}},
			}},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(answer.OverallCode, answer.Statuses[0].LimitRemaining)
	}
	// Output:
	// OK 1
	// OK 0
	// OVER_LIMIT 0
}

// The service is one of grpc-go's.
func ExampleNew() {
	config, err := rlslimit.Parse("shop.yaml", []byte(shop))
	if err != nil {
		fmt.Println(err)
		return
	}
	service, err := rlslimit.New(rlslimit.Options{Config: config, Headers: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	server := grpc.NewServer()
	ratelimit.RegisterRateLimitServiceServer(server, service)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go server.Stop() // in place of a signal
	_ = server.Serve(listener)
	// Output:
}

// Every fault has its place, and what was expected there.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "shop.yaml")
	if err := os.WriteFile(file, []byte("domain: shop\ndescriptors:\n- key: user\n  rate_limit: {unit: fortnight}\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	_, err = rlslimit.Load(dir)
	if fault := new(rlslimit.Fault); errors.As(err, &fault) {
		fmt.Println(filepath.Base(fault.File), fault.Line, fault.Column)
		fmt.Println(fault.Text)
	}
	// Output:
	// shop.yaml 4 22
	// invalid rate limit unit 'fortnight', want second, minute, hour, day, week, month or year
}

func ExampleLoadMerged() {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for _, key := range []string{"user", "path"} {
		text := "domain: shop\ndescriptors:\n- {key: " + key + ", limit: 5/s}\n"
		if err := os.WriteFile(filepath.Join(dir, key+".yaml"), []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	_, err = rlslimit.Load(dir)
	fmt.Println(err != nil)
	config, err := rlslimit.LoadMerged(dir)
	fmt.Println(config.Domains(), err)
	// Output:
	// true
	// [shop] <nil>
}

func ExampleConfig_Warnings() {
	config, err := rlslimit.Parse("shop.yaml", []byte(`domain: shop
descriptors:
- key: user
  rate_limit: {unit: day, requests_per_unit: 5, shadow_mode: true}
`))
	fmt.Println(config.Warnings(), err)
	// Output: [shop.yaml:4:49: rate_limit has no "shadow_mode": it is ignored] <nil>
}

func ExampleService_Rules() {
	config, err := rlslimit.Parse("shop.yaml", []byte(shop))
	if err != nil {
		fmt.Println(err)
		return
	}
	service, err := rlslimit.New(rlslimit.Options{Config: config})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	for _, r := range service.Rules() {
		fmt.Println(r.Domain, r.Name, r.Limit, r.Granted, r.Rejected)
	}
	n, err := service.Reset(context.Background(), "shop/remote_address", "192.0.2.1")
	fmt.Println(n, err)
	// Output:
	// shop remote_address 2/week 0 0
	// shop override  0 0
	// 0 <nil>
}
