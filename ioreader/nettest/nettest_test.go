package nettest_test

import (
	"math"
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

func TestConns(t *testing.T) {
	for name, pair := range map[string]func() (net.Conn, net.Conn, error){
		"pipe": func() (net.Conn, net.Conn, error) {
			a, b := net.Pipe()
			return a, b, nil
		},
		"tcp": tcp,
	} {
		for limits, options := range map[string]func(*testing.T) ioreader.ConnOptions{
			"unlimited":  func(*testing.T) ioreader.ConnOptions { return ioreader.ConnOptions{} },
			"buckets":    buckets,
			"semaphores": semaphores,
			"chains":     chains,
		} {
			t.Run(name+"/"+limits, func(t *testing.T) {
				nettest.TestConn(t, func() (a, b net.Conn, stop func(), err error) {
					under, peer, err := pair()
					if err != nil {
						return nil, nil, nil, err
					}
					if a, err = ioreader.NewConn(under, options(t)); err != nil {
						return nil, nil, nil, err
					}
					if b, err = ioreader.NewConn(peer, options(t)); err != nil {
						return nil, nil, nil, err
					}
					return a, b, func() { a.Close(); b.Close() }, nil
				})
			})
		}
	}
}

// tcp returns the two ends of a connection over loopback.
func tcp() (a, b net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	b, err = l.Accept()
	return a, b, err
}

func bucket(t *testing.T) core.Limiter {
	t.Helper()
	l, err := core.NewTokenBucket(ioreader.PerSecond(1 << 30))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func semaphore(t *testing.T) core.Limiter {
	t.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 64 << 10, QueueLimit: math.MaxInt})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func chain(t *testing.T) core.Limiter {
	t.Helper()
	l, err := core.Chain(semaphore(t), bucket(t))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func buckets(t *testing.T) ioreader.ConnOptions {
	t.Helper()
	return ioreader.ConnOptions{Read: bucket(t), Write: bucket(t)}
}

func semaphores(t *testing.T) ioreader.ConnOptions {
	t.Helper()
	return ioreader.ConnOptions{Read: semaphore(t), Write: semaphore(t)}
}

func chains(t *testing.T) ioreader.ConnOptions {
	t.Helper()
	return ioreader.ConnOptions{Read: chain(t), Write: chain(t)}
}
