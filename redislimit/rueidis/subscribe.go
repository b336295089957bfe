package rueidis

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/redislimit"
)

// pingEvery is how often a subscribed connection is pinged. The reply must come within the same time. The client's own pings would
// notice only after its ConnWriteTimeout, 10 s by default, that the connection hangs.
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
		// A connection of its own: some servers, such as miniredis, run no scripts on one that is subscribed. It is not returned to
		// the client, which would first send UNSUBSCRIBE: rueidis panics if the server replies to that with an error.
		own, _ := s.client.Dedicate()
		defer own.Close()
		pinging := ping(lasting, own)
		defer pinging.Stop()
		failed = own.Receive(hooked, own.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) { f() })
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

// ping pings the connection from time to time until the timer is stopped. If there is no reply, it closes the connection, which
// ends its subscription.
func ping(ctx context.Context, own rueidis.DedicatedClient) *time.Timer {
	var timer *time.Timer
	timer = time.AfterFunc(pingEvery, func() {
		call, cancel := context.WithTimeout(ctx, pingEvery)
		defer cancel()
		if err := own.Do(call, own.B().Ping().Build()).NonRedisError(); err != nil {
			own.Close()
			return
		}
		timer.Reset(pingEvery)
	})
	return timer
}
