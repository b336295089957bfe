// Package after limits the bandwidth of a server's connections with ioreader.
package after

import (
	"net"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// Listen listens for connections, each of which receives at most 1 MiB/s.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return ioreader.NewListener(l, ioreader.ListenerOptions{PerConn: oneMiBPerSecond})
}

func oneMiBPerSecond(net.Conn) (ioreader.ConnOptions, error) {
	bucket, err := core.NewTokenBucket(ioreader.PerSecond(1 << 20))
	return ioreader.ConnOptions{Write: bucket}, err
}
