package rueidis

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/redislimit"
)

// Subscribe implements [redislimit.Store]. The client's own pings notice a connection that hangs.
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
