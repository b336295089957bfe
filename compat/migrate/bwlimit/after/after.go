// Package after limits the bandwidth of a server's connections with ioreader.
package after

import (
	"net"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// Limit makes each connection of a listener send at most 1 MiB/s.
func Limit(l net.Listener) (net.Listener, error) {
	return ioreader.NewListener(l, ioreader.ListenerOptions{PerConn: oneMiBPerSecond})
}

func oneMiBPerSecond(net.Conn) (ioreader.ConnOptions, error) {
	bucket, err := core.NewTokenBucket(ioreader.PerSecond(1 << 20))
	return ioreader.ConnOptions{Write: bucket}, err
}
