package rueidis

import (
	"context"

	"github.com/redis/rueidis"
)

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
		// A connection of its own: some servers, as miniredis, run no scripts on one that is subscribed.
		own, release := s.client.Dedicate()
		defer release()
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
