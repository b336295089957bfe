package compat_test

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/pipe"
)

// The connections of pipe, and throttled ones of package net, pass nettest's suite for connections.
func TestConns(t *testing.T) {
	t.Parallel()
	for limits, limiter := range map[string]func(t *testing.T) core.Limiter{
		"unlimited": func(*testing.T) core.Limiter { return nil },
		"bucket":    fastBucket,
		"permits":   func(t *testing.T) core.Limiter { t.Helper(); return slots(t, 64<<10) },
		"few":       func(t *testing.T) core.Limiter { t.Helper(); return slots(t, 700) },
		"chain":     func(t *testing.T) core.Limiter { t.Helper(); return chain(t, slots(t, 64<<10), fastBucket(t)) },
	} {
		throttled := func(pair func() (net.Conn, net.Conn, error)) func(t *testing.T) (net.Conn, net.Conn, error) {
			return func(t *testing.T) (net.Conn, net.Conn, error) {
				t.Helper()
				a, b, err := pair()
				if err != nil {
					return nil, nil, err
				}
				a, errA := ioreader.NewConn(a, ioreader.ConnOptions{Read: limiter(t), Write: limiter(t)})
				b, errB := ioreader.NewConn(b, ioreader.ConnOptions{Read: limiter(t), Write: limiter(t)})
				return a, b, errors.Join(errA, errB)
			}
		}
		for name, pair := range map[string]func(t *testing.T) (net.Conn, net.Conn, error){
			"pipe.Conns": func(t *testing.T) (net.Conn, net.Conn, error) {
				t.Helper()
				options := func() pipe.Options { return pipe.Options{ReadLimiter: limiter(t), WriteLimiter: limiter(t)} }
				return pipe.Conns(options(), options())
			},
			"net.Pipe": throttled(func() (net.Conn, net.Conn, error) {
				a, b := net.Pipe()
				return a, b, nil
			}),
			"TCP": throttled(tcp),
		} {
			t.Run(name+"/"+limits, func(t *testing.T) {
				t.Parallel()
				nettest.TestConn(t, func() (a, b net.Conn, stop func(), err error) {
					a, b, err = pair(t)
					return a, b, func() { a.Close(); b.Close() }, err
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
