package nettest_test

import (
	"math"
	"net"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

func TestConn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		options func(t *testing.T) pipe.Options
	}{
		{"Unlimited", func(*testing.T) pipe.Options { return pipe.Options{} }},
		{"Concurrency", func(t *testing.T) pipe.Options {
			l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 700, QueueLimit: math.MaxInt})
			if err != nil {
				t.Fatal(err)
			}
			return pipe.Options{WriteLimiter: l}
		}},
		{"Bucket", func(t *testing.T) pipe.Options { return pipe.Options{WriteLimiter: bucket(t), ReadLimiter: bucket(t)} }},
		{"Chain", func(t *testing.T) pipe.Options {
			l, err := core.Chain(bucket(t), bucket(t))
			if err != nil {
				t.Fatal(err)
			}
			return pipe.Options{WriteLimiter: l}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				c1, c2, err = pipe.Conns(test.options(t), test.options(t))
				if err != nil {
					return nil, nil, nil, err
				}
				return c1, c2, func() {
					_ = c1.Close()
					_ = c2.Close()
				}, nil
			})
		})
	}
}

func bucket(t *testing.T) core.Limiter {
	t.Helper()
	l, err := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: 1 << 20, TokensPerPeriod: 1 << 16, ReplenishmentPeriod: time.Millisecond, QueueLimit: math.MaxInt,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
