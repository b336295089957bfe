package rlslimit_test

import (
	"strconv"
	"testing"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sluice-go/sluice/cmd/sluice/internal/rlslimit"
)

func BenchmarkShouldRateLimit(b *testing.B) {
	c, err := rlslimit.Parse("f", []byte("domain: d\ndescriptors:\n- {key: user, rate_limit: {unit: hour, requests_per_unit: 4000000000}}\n- {key: path, value: /a, limit: 1000000/s}\n"))
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 2} {
		for _, users := range []int{1, 1000} {
			b.Run("descriptors="+strconv.Itoa(n)+"/users="+strconv.Itoa(users), func(b *testing.B) {
				s, err := rlslimit.New(rlslimit.Options{Config: c})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				requests := make([]*ratelimit.RateLimitRequest, users)
				for i := range requests {
					requests[i] = &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{entries("user=" + strconv.Itoa(i)), entries("path=/a")}[:n]}
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if _, err := s.ShouldRateLimit(b.Context(), requests[i%users]); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}
