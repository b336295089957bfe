package goredis

import (
	"context"
	"errors"
	"net"
	"sync"
	"weak"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/redislimit/internal/registry"
)

// dials notices when a client cannot make a connection, and fails the commands that wait for one. By itself go-redis tries five
// times, which takes longer than a decision.
type dials struct {
	mu       sync.Mutex
	commands map[*context.CancelCauseFunc]struct{} // in flight
}

// known holds the dials of each client, so that all stores of a client share one hook. The hook keeps them alive.
var known registry.Registry[weak.Pointer[redis.Client], dials]

// dialsOf returns the dials of a client.
func dialsOf(client *redis.Client) *dials {
	return known.Get(weak.Make(client), func() *dials {
		d := &dials{commands: make(map[*context.CancelCauseFunc]struct{})}
		client.AddHook(d)
		return d
	})
}

// run calls f. If a connection cannot be made meanwhile, it cancels the context of f and returns the reason. A command that has a
// connection is not interrupted by its context.
func (d *dials) run(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.add(&cancel)
	defer d.remove(&cancel)
	err := f(ctx)
	if errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}

func (d *dials) add(c *context.CancelCauseFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commands[c] = struct{}{}
}

func (d *dials) remove(c *context.CancelCauseFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.commands, c)
}

// DialHook implements [redis.Hook].
func (d *dials) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil && ctx.Err() == nil { // otherwise no command waits for it
			d.mu.Lock()
			defer d.mu.Unlock()
			for cancel := range d.commands {
				(*cancel)(err)
			}
		}
		return conn, err
	}
}

// ProcessHook implements [redis.Hook].
func (*dials) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (*dials) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
