package rueidis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/redislimit"
)

// pingEvery is how often a subscribed connection is pinged. The reply must come within the same time. By itself rueidis notices a
// connection that hangs only after ConnWriteTimeout, 10 s by default.
const pingEvery = time.Second

// Subscribe implements [redislimit.Store].
func (s *store) Subscribe(ctx context.Context, channel string, f func()) (func(), error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	subscribed, ended := make(chan struct{}, 1), make(chan struct{})
	var failed error
	hooked := rueidis.WithOnSubscriptionHook(lasting, func(sub rueidis.PubSubSubscription) {
		if sub.Kind == "subscribe" {
			select {
			case subscribed <- struct{}{}:
			default:
			}
		}
	})
	go func() {
		defer close(ended)
		defer redislimit.SubscriptionEnded(ctx)
		// A connection of its own: some servers, such as miniredis, run no scripts on one that is subscribed.
		own, release := s.client.Dedicate()
		var pings sync.WaitGroup
		pings.Go(func() { keepAlive(lasting, own) })
		failed = own.Receive(hooked, own.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) { f() })
		cancel()
		pings.Wait()
		if ping(context.WithoutCancel(ctx), own) == nil {
			release()
		} else {
			own.Close() // release would wait for the server
		}
	}()
	select {
	case <-subscribed:
	case <-ended:
		cancel()
		return nil, failed
	case <-ctx.Done():
		cancel()
		<-ended
		return nil, ctx.Err()
	}
	return func() {
		cancel()
		<-ended
	}, nil
}

// keepAlive closes the connection, which ends its subscription, when the server does not reply to a ping. It returns when
// ctx is done.
func keepAlive(ctx context.Context, own rueidis.DedicatedClient) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := ping(ctx, own); err != nil && ctx.Err() == nil {
			own.Close()
			return
		}
	}
}

func ping(ctx context.Context, own rueidis.DedicatedClient) error {
	ctx, cancel := context.WithTimeout(ctx, pingEvery)
	defer cancel()
	return own.Do(ctx, own.B().Ping().Build()).NonRedisError()
}
