package serve

import (
	"net"
	"sync"

	"google.golang.org/grpc"
)

// connections is a listener that knows its open connections. At shutdown a gRPC server waits for connections whose handshake
// has not ended.
type connections struct {
	net.Listener

	mu   sync.Mutex
	open map[*connection]struct{} // nil before the first connection
	over bool                     // new connections are closed
}

// connection is an open connection.
type connection struct {
	net.Conn

	of *connections
}

// Accept returns the next connection.
func (c *connections) Accept() (net.Conn, error) {
	accepted, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &connection{accepted, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[*connection]struct{})
	}
	if c.over {
		_ = accepted.Close()
	}
	c.open[conn] = struct{}{}
	return conn, nil
}

// Close closes the connection.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// cut closes all connections and stops the server.
func (c *connections) cut(g *grpc.Server) {
	_ = c.Listener.Close()
	c.mu.Lock()
	c.over = true
	for conn := range c.open {
		_ = conn.Conn.Close()
	}
	c.mu.Unlock()
	g.Stop()
}
