package goredis

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/redislimit"
)

// pingEvery is how long a subscribed connection may be idle before it is pinged. The reply must come within the same time.
const pingEvery = time.Second

// Subscribe implements [redislimit.Store].
func (s *store) Subscribe(ctx context.Context, channel string, f func()) (func(), error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel) // ends a connection that is still being made
	ps := s.client.Subscribe(lasting, channel)
	if _, err := ps.Receive(ctx); err != nil || !stop() {
		cancel()
		_ = ps.Close() // the error is known
		return nil, cmp.Or(err, ctx.Err())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer redislimit.SubscriptionEnded(ctx)
		receive(lasting, ps, f)
	}()
	return func() {
		cancel()
		_ = ps.Close() // ends a Receive
		<-ended
	}, nil
}

// receive calls f for each message until the connection ends, or does not reply to a ping. By itself go-redis would wait forever
// on a connection that hangs.
func receive(ctx context.Context, ps *redis.PubSub, f func()) {
	for pinged := false; ; {
		message, err := ps.ReceiveTimeout(ctx, pingEvery)
		var failure net.Error
		switch {
		case err == nil:
			pinged = false
			if _, ok := message.(*redis.Message); ok {
				f()
			}
		case pinged || !errors.As(err, &failure) || !failure.Timeout() || ps.Ping(ctx) != nil:
			return
		default:
			pinged = true
		}
	}
}
