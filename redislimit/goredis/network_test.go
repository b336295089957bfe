package goredis_test

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// network has connections to a server in memory that take a while in each direction, in the bubble's time.
type network struct {
	server *miniredis.Miniredis
	oneWay time.Duration

	mu    sync.Mutex
	open  []net.Conn
	dials int
	tasks sync.WaitGroup
}

// dial makes a connection, in one round trip.
func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
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
	far, err := n.server.Dial()
	if err != nil {
		return nil, err
	}
	near, middle := net.Pipe()
	n.mu.Lock()
	n.open = append(n.open, near, middle, far)
	n.mu.Unlock()
	n.tasks.Go(func() { n.carry(far, middle) })
	n.tasks.Go(func() { n.carry(middle, far) })
	return near, nil
}

// carry carries bytes, each for as long as the way is, until either end is closed.
func (n *network) carry(to, from net.Conn) {
	type packet struct {
		bytes []byte
		due   time.Time
	}
	packets := make(chan packet, 1000)
	n.tasks.Go(func() {
		defer to.Close()
		for p := range packets {
			time.Sleep(time.Until(p.due))
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

// cut ends all connections.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.open {
		_ = c.Close()
	}
	n.open = nil
}
