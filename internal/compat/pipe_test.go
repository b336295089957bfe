package compat_test

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/sluice-go/sluice/pipe"
)

// The ends of pipe.Conns pass nettest's suite for connections.
func TestPipeConns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		options func(t *testing.T) pipe.Options
	}{
		{"Unlimited", func(*testing.T) pipe.Options { return pipe.Options{} }},
		{"Concurrency", func(t *testing.T) pipe.Options {
			return pipe.Options{WriteLimiter: slots(t, 700)}
		}},
		{"Bucket", func(t *testing.T) pipe.Options {
			return pipe.Options{WriteLimiter: fastBucket(t), ReadLimiter: fastBucket(t)}
		}},
		{"Chain", func(t *testing.T) pipe.Options {
			return pipe.Options{WriteLimiter: chain(t, fastBucket(t), fastBucket(t))}
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
