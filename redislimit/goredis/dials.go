package goredis

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"weak"

	"github.com/redis/go-redis/v9"
)

// dials notices when a client cannot make a connection, and ends the commands that wait for one. go-redis tries five
// times by default, which takes longer than a decision.
type dials struct {
	mu     sync.Mutex
	fine   context.Context // ends, with the reason, when a connection cannot be made
	failed context.CancelCauseFunc
}

// known has the dials of each client, so that all stores of a client share one hook. The hook keeps them.
var known struct {
	sync.Mutex

	dials map[weak.Pointer[redis.Client]]weak.Pointer[dials]
}

// dialsOf returns the dials of a client.
func dialsOf(client *redis.Client) *dials {
	key := weak.Make(client)
	known.Lock()
	defer known.Unlock()
	if d := known.dials[key].Value(); d != nil {
		return d
	}
	d := new(dials)
	d.reset()
	client.AddHook(d)
	if known.dials == nil {
		known.dials = make(map[weak.Pointer[redis.Client]]weak.Pointer[dials])
	}
	known.dials[key] = weak.Make(d)
	runtime.AddCleanup(client, func(key weak.Pointer[redis.Client]) {
		known.Lock()
		defer known.Unlock()
		delete(known.dials, key)
	}, key)
	return d
}

func (d *dials) reset() {
	d.fine, d.failed = context.WithCancelCause(context.Background()) //nolint:forbidigo // it is of many commands
}

// run calls f. If a connection cannot be made meanwhile, it ends the context of f, and returns why; a command that has a
// connection is not interrupted by a context.
func (d *dials) run(ctx context.Context, f func(context.Context) error) error {
	d.mu.Lock()
	fine := d.fine
	d.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(fine, cancel) //nolint:contextcheck // it is of many commands
	defer stop()
	err := f(ctx)
	if errors.Is(err, context.Canceled) && fine.Err() != nil {
		return context.Cause(fine) //nolint:contextcheck // as above
	}
	return err
}

// DialHook implements [redis.Hook].
func (d *dials) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil && ctx.Err() == nil { // else nobody waits for it
			d.mu.Lock()
			defer d.mu.Unlock()
			d.failed(err)
			d.reset()
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
