// Package network connects tests to a Redis server in memory, over connections that take time.
package network

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Network makes connections to a server in memory. Each byte arrives after oneWay, in the bubble's time.
type Network struct {
	Server *miniredis.Miniredis
	Refuse atomic.Bool // connections are refused

	oneWay time.Duration

	mu    sync.Mutex
	open  []net.Conn
	dials int
	tasks sync.WaitGroup
}

// New starts a server that is a round trip away. The server and its connections end with the test.
func New(tb testing.TB, roundTrip time.Duration) *Network {
	tb.Helper()
	n := &Network{Server: miniredis.NewMiniRedis(), oneWay: roundTrip / 2}
	tb.Cleanup(n.Server.Close)
	tb.Cleanup(n.tasks.Wait)
	tb.Cleanup(n.Cut) // go-redis forgets a connection that is made after its call has ended
	return n
}

// Dials returns how often Dial was called.
func (n *Network) Dials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

// Dial makes a connection, in one round trip.
func (n *Network) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	n.mu.Unlock()
	timer := time.NewTimer(2 * n.oneWay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if n.Refuse.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	far, err := n.Server.Dial()
	if err != nil {
		return nil, err
	}
	near, middle := net.Pipe()
	n.mu.Lock()
	n.open = append(n.open, middle, far)
	n.mu.Unlock()
	n.tasks.Go(func() { n.carry(far, middle) })
	n.tasks.Go(func() { n.carry(middle, far) })
	return near, nil
}

// carry copies bytes, each oneWay after it was read, until either end is closed.
func (n *Network) carry(to, from net.Conn) {
	type packet struct {
		bytes []byte
		due   time.Time
	}
	packets := make(chan packet, 1000)
	n.tasks.Go(func() {
		defer func() { _ = to.Close() }()
		for p := range packets {
			<-time.NewTimer(time.Until(p.due)).C
			if _, err := to.Write(p.bytes); err != nil {
				_, _ = io.Copy(io.Discard, from) // until the other end notices
			}
		}
	})
	defer close(packets)
	for {
		buffer := make([]byte, 64<<10)
		k, err := from.Read(buffer)
		if err != nil {
			return
		}
		packets <- packet{buffer[:k], time.Now().Add(n.oneWay)}
	}
}

// Cut closes all connections, as the server does.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.open {
		_ = c.Close()
	}
	n.open = nil
}
