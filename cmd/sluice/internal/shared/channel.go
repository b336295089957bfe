package shared

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// Publish sends a text to all current subscribers of the channel.
func (s *Store) Publish(ctx context.Context, channel, text string) error {
	return s.client.Publish(ctx, channel, text).Err()
}

const (
	pingEvery      = time.Second // while no text comes; the reply must come within the same time
	subscribeEvery = time.Second
)

// Subscribe calls f with each text of the channel, one after the other, until ctx is done. It subscribes again after a
// subscription fails or ends; texts that are published meanwhile are lost. If the server refuses the subscription, state is
// called with its error, and with nil when it no longer does. ready is closed when the server has replied, or after as long as
// Warm may take.
func (s *Store) Subscribe(ctx context.Context, channel string, f func(text string), state func(refused error)) (ready <-chan struct{}) {
	asking, asked := context.WithTimeout(ctx, max(warming, s.timeout))
	go func() { // the caller does not wait for its end, which an unreachable server delays by seconds
		defer asked()
		refused := false
		for again := true; again; again = cli.Sleep(ctx, subscribeEvery) {
			subscription := s.client.Subscribe(ctx, channel)
			// By itself go-redis neither reports a refusal nor subscribes again after one.
			_, err := subscription.ReceiveTimeout(ctx, max(warming, s.timeout))
			asked()
			if refuses := IsRefusal(err); refuses != refused && (refuses || err == nil) {
				refused = refuses
				state(err)
			}
			if err == nil {
				receive(ctx, subscription, f)
			}
			_ = subscription.Close()
		}
	}()
	return asking.Done()
}

// receive calls f with each text of a subscription, until it ends.
func receive(ctx context.Context, subscription *redis.PubSub, f func(text string)) {
	pinged := false
	for ctx.Err() == nil {
		message, err := subscription.ReceiveTimeout(ctx, pingEvery)
		switch {
		case err == nil:
			pinged = false
			if m, ok := message.(*redis.Message); ok {
				f(m.Payload)
			}
		case pinged || !errors.Is(err, os.ErrDeadlineExceeded) || subscription.Ping(ctx) != nil:
			return
		default:
			pinged = true
		}
	}
}
