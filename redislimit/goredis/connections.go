package goredis

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"
	"weak"

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
//
// go-redis tries again when it cannot connect, for longer than a decision lasts. A hook reports the first
// failure, which ends the commands that wait for a turn.
type connections struct {
	client *redis.Client // ends commands with their context
	most   int           // connections in its pool
	made   time.Duration // how long it may take to make one

	turns chan struct{} // of ready connections that no command uses

	mu      sync.Mutex
	waiting int                     // commands that wait for a turn
	making  int                     // goroutines of the attempt, each of which makes a connection
	ready   int                     // connections that are ready, in use or not
	latest  error                   // why the latest connection was not made; nil: it was
	attempt context.Context         // ends, with the reason, when a connection cannot be made
	giveUp  context.CancelCauseFunc // ends it
}

// clients has the connections of each client, so that all stores of a client have the same, and there is one hook.
var clients struct {
	sync.Mutex

	known map[weak.Pointer[redis.Client]]weak.Pointer[connections] // the client's hook keeps its connections
}

// connectionsOf returns the connections of a client.
func connectionsOf(client *redis.Client) *connections {
	key := weak.Make(client)
	clients.Lock()
	defer clients.Unlock()
	if c := clients.known[key].Value(); c != nil {
		return c
	}
	c := newConnections(client)
	client.AddHook(hook{c})
	if clients.known == nil {
		clients.known = make(map[weak.Pointer[redis.Client]]weak.Pointer[connections])
	}
	clients.known[key] = weak.Make(c)
	runtime.AddCleanup(client, func(key weak.Pointer[redis.Client]) {
		clients.Lock()
		defer clients.Unlock()
		delete(clients.known, key)
	}, key)
	return c
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
	cs := &connections{
		client: c,
		most:   most,
		made:   max(o.DialTimeout, 0) + max(o.ReadTimeout, 0) + time.Second,
		turns:  make(chan struct{}, most),
	}
	cs.attempt, cs.giveUp = context.WithCancelCause(context.Background()) //nolint:forbidigo // it is of many commands
	return cs
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

// await waits for a turn. An attempt never has more goroutines that make a connection than there were commands waiting at
// the same time: a command that comes after others have given up waits for what was begun for them.
func (c *connections) await(ctx context.Context, script *redislimit.Script) error {
	c.mu.Lock()
	attempt := c.attempt
	c.waiting++
	if c.making < c.waiting && c.making+c.ready < c.most {
		c.making++
		go c.make(context.WithoutCancel(ctx), attempt, script)
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
	case <-attempt.Done():
		return context.Cause(attempt) //nolint:contextcheck // it is of many commands
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("goredis: no connection yet: %w", cmp.Or(c.latest, ctx.Err()))
	}
}

// make makes a connection, and has the server load the script: the command that waits has no time to send it in full.
// A pool that has an idle connection gives that. It ends with the attempt.
func (c *connections) make(ctx, attempt context.Context, script *redislimit.Script) {
	ctx, cancel := context.WithTimeout(ctx, c.made)
	defer cancel()
	stop := context.AfterFunc(attempt, cancel)
	defer stop()
	// Not by Conn: a Conn initializes its connection without the lock of the options that it shares with its client.
	err := c.client.ScriptLoad(ctx, script.Source()).Err()
	if answered(err) {
		err = nil // a server that allows EVALSHA alone is as good
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if attempt != c.attempt { // it has ended; a connection that was made all the same is in the pool, for the next one
		return
	}
	c.making--
	if err != nil {
		c.failLocked(err)
		return
	}
	c.latest = nil
	c.ready++
	c.turns <- struct{}{}
}

// failLocked ends the attempt of all commands that wait and of the goroutines that connect; the next command begins another.
func (c *connections) failLocked(err error) {
	c.giveUp(err)
	c.latest, c.making = err, 0
	c.attempt, c.giveUp = context.WithCancelCause(context.Background()) //nolint:forbidigo // it is of many commands
}

// hook reports to connections that the client could not connect. It leaves commands alone.
type hook struct{ connections *connections }

func (h hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil && ctx.Err() == nil { // else somebody did not want to wait for it
			c := h.connections
			c.mu.Lock()
			defer c.mu.Unlock()
			c.failLocked(err)
		}
		return conn, err
	}
}

func (hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
