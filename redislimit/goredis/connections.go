package goredis

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/redislimit"
)

// connections makes the connections of a single server's client. A decision has its Budget; a new connection needs a
// round trip for TCP, more for TLS, AUTH and HELLO, and the first script is sent in full. go-redis makes one in
// the time of the command that wants it, and gives it up with that command: with a server far away each decision would
// begin anew, and none would ever end.
//
// So a command first takes a turn. There is one for each connection that is ready; a command gives its turn back when
// the server has answered it. One that finds no turn has a connection made by a goroutine with a time of its own.
type connections struct {
	client *redis.Client // ends commands with their context
	most   int           // connections in its pool
	made   time.Duration // how long it may take to make one

	turns  chan struct{} // of ready connections that no command uses
	failed chan error    // why a connection was not made, for a command that waits for a turn

	mu      sync.Mutex
	waiting int   // commands that wait for a turn
	making  int   // goroutines that make a connection
	ready   int   // connections that are ready, in use or not
	latest  error // why the latest connection was not made; nil: it was
}

func newConnections(c *redis.Client) *connections {
	o := c.Options()
	if !o.ContextTimeoutEnabled {
		// The same connections, and options of its own, but not the hooks.
		view := c.WithTimeout(o.ReadTimeout)
		view.Options().WriteTimeout = o.WriteTimeout
		view.Options().ContextTimeoutEnabled = true
		c = view
	}
	most := max(o.PoolSize, 1)
	return &connections{
		client: c,
		most:   most,
		made:   max(o.DialTimeout, 0) + max(o.ReadTimeout, 0) + time.Second,
		turns:  make(chan struct{}, most),
		failed: make(chan error),
	}
}

// send sends the command when there is a ready connection for it. It returns when ctx is done at the latest.
func (c *connections) send(ctx context.Context, script *redislimit.Script, cmd redis.Cmder) error {
	select {
	case <-c.turns:
	default:
		if err := c.await(ctx, script); err != nil {
			return err
		}
	}
	alive := false
	defer func() { // also if a hook panics
		if alive {
			c.turns <- struct{}{} // never blocks: there is room for all that are ready
		} else {
			c.lose()
		}
	}()
	err := c.client.Process(ctx, cmd)
	alive = answered(err)
	return err
}

// lose ends the turn of a command that was not answered. go-redis has closed its connection; the server may be another
// one now, and the idle connections too be dead. They lose their turns: if they live, they are soon ready again.
func (c *connections) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready--
	for {
		select {
		case <-c.turns:
			c.ready--
		default:
			return
		}
	}
}

// await waits for a turn. There are never more goroutines that make a connection than there were commands waiting at the
// same time: a command that comes after others have given up waits for what was begun for them.
func (c *connections) await(ctx context.Context, script *redislimit.Script) error {
	c.mu.Lock()
	c.waiting++
	if c.making < c.waiting && c.making+c.ready < c.most {
		c.making++
		go c.make(context.WithoutCancel(ctx), script)
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.waiting--
		c.mu.Unlock()
	}()
	select {
	case <-c.turns:
		return nil
	case err := <-c.failed:
		return err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("goredis: no connection yet: %w", cmp.Or(c.latest, ctx.Err()))
	}
}

// make makes a connection, and has the server load the script: the command that waits has no time to send it in full.
// A pool that has an idle connection gives that.
func (c *connections) make(ctx context.Context, script *redislimit.Script) {
	ctx, cancel := context.WithTimeout(ctx, c.made)
	defer cancel()
	conn := c.client.Conn()
	err := conn.ScriptLoad(ctx, script.Source()).Err()
	_ = conn.Close() // it goes back to the pool, or has failed
	if answered(err) {
		err = nil // a server that allows EVALSHA alone is as good
	}
	c.mu.Lock()
	c.making--
	c.latest = err
	if err == nil {
		c.ready++
		c.turns <- struct{}{}
	}
	c.mu.Unlock()
	if err != nil {
		select {
		case c.failed <- err:
		default: // nobody waits
		}
	}
}
