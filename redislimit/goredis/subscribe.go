package goredis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Subscribe implements [redislimit.Store].
func (s *store) Subscribe(ctx context.Context, channel string, f func()) (func(), error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ps := s.client.Subscribe(lasting, channel)
	if _, err := ps.Receive(ctx); err != nil {
		cancel()
		_ = ps.Close() // what is wrong is known
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		receive(lasting, ps, f)
	}()
	return func() {
		cancel()
		_ = ps.Close() // it ends a Receive
		<-ended
	}, nil
}

// receive calls f for each message, and for each subscription that is made anew, as
// messages may have been lost.
func receive(ctx context.Context, ps *redis.PubSub, f func()) {
	const pause = 100 * time.Millisecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for ctx.Err() == nil {
		message, err := ps.Receive(ctx)
		if err != nil {
			timer.Reset(pause)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			continue
		}
		switch message.(type) {
		case *redis.Message, *redis.Subscription:
			f()
		}
	}
}
