package compat_test

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/sluice-go/sluice/ioreader"
)

// Throttled connections pass nettest's suite for connections.
func TestThrottledConns(t *testing.T) {
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

func buckets(t *testing.T) ioreader.ConnOptions {
	t.Helper()
	return ioreader.ConnOptions{Read: fastBucket(t), Write: fastBucket(t)}
}

func semaphores(t *testing.T) ioreader.ConnOptions {
	t.Helper()
	return ioreader.ConnOptions{Read: slots(t, 64<<10), Write: slots(t, 64<<10)}
}

func chains(t *testing.T) ioreader.ConnOptions {
	t.Helper()
	return ioreader.ConnOptions{
		Read:  chain(t, slots(t, 64<<10), fastBucket(t)),
		Write: chain(t, slots(t, 64<<10), fastBucket(t)),
	}
}
