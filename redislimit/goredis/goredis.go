// Package goredis makes a [redislimit.Store] of a go-redis client:
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	limiter, err := redislimit.NewTokenBucket(redislimit.TokenBucketOptions{
//		TokenBucketOptions: core.PerSecond(1000, 100),
//		Shared:             redislimit.Shared{Store: goredis.New(client), Key: "orders"},
//	})
package goredis

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/redislimit"
)

// New returns a store that runs scripts by c: the client of a single server, of a Sentinel, of a cluster or of a
// ring. The client remains the caller's, who closes it after the limiters. A store is safe for concurrent use.
//
// A script is never sent again after its bytes were sent, whatever the client's MaxRetries; a cluster's redirections
// are followed. Run returns when its context is done, whatever the client's options.
//
// A connection is made apart from the decision that wants it, and kept, even if the decision does not wait so long.
// With a single server or a Sentinel a script is only sent on a connection that is ready, and a connection that cannot
// be made is a failure at once, while go-redis tries again (DialerRetries): New adds a hook to the client, which sees
// that. With a cluster or a ring a script that waits for a new connection may be sent after its decision has ended; what
// it takes then counts as taken.
//
// All stores of a client share its connections.
//
// The client's hooks see the scripts of a cluster and of a ring, and those of a single server and of a Sentinel if
// its ContextTimeoutEnabled is set. The pool should have room for as many connections as limiters are asked at the
// same time, and one more for each concurrency limiter that a caller waits for.
func New(c redis.UniversalClient) redislimit.Store {
	if single, ok := c.(*redis.Client); ok {
		return &store{client: c, send: connectionsOf(single).send}
	}
	return &store{client: c, send: apart(c.Process)}
}

type store struct {
	client redis.UniversalClient
	send   func(context.Context, *redislimit.Script, redis.Cmder) error
}

// Prompt reports that Run returns by its context's deadline.
func (*store) Prompt() bool { return true }

// once is a command that go-redis does not send again.
type once struct{ *redis.IntSliceCmd }

func (once) NoRetry() bool { return true }

// Run implements [redislimit.Store].
func (s *store) Run(ctx context.Context, script *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	a := make([]any, 0, 3+len(keys)+len(args))
	a = append(a, "evalsha", script.SHA1(), len(keys))
	for _, k := range keys {
		a = append(a, k)
	}
	for _, n := range args {
		a = append(a, n)
	}
	cmd := once{redis.NewIntSliceCmd(ctx, a...)}
	err := s.send(ctx, script, cmd)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		b := slices.Clone(a)
		b[0], b[1] = "eval", script.Source()
		cmd = once{redis.NewIntSliceCmd(ctx, b...)}
		err = s.send(ctx, script, cmd)
	}
	if err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// apart returns a send that ends with its context, while the command goes on and its connection is kept.
func apart(process func(context.Context, redis.Cmder) error) func(context.Context, *redislimit.Script, redis.Cmder) error {
	return func(ctx context.Context, _ *redislimit.Script, cmd redis.Cmder) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() { done <- process(context.WithoutCancel(ctx), cmd) }()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answered reports whether the server has answered, if only with an error.
func answered(err error) bool {
	if err == nil {
		return true
	}
	var says redis.Error
	return errors.As(err, &says)
}
