package shared

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Publish sends a text to all current subscribers of the channel.
func (s *Store) Publish(ctx context.Context, channel, text string) error {
	return s.client.Publish(ctx, channel, text).Err()
}

const (
	pingEvery      = time.Second // while no text comes; the reply must come within the same time
	minResubscribe = 100 * time.Millisecond
	maxResubscribe = 5 * time.Second
)

// Subscribe calls f with each text of the channel, one after the other, until ctx is done. A subscription that fails or ends is
// tried again, after at most 5 s; texts that are published meanwhile are lost. If the server refuses the subscription, state is
// called with its error, and with nil when it no longer does. ready is closed when the server has replied, or after as long as
// Warm may take.
func (s *Store) Subscribe(ctx context.Context, channel string, f func(text string), state func(refused error)) (ready <-chan struct{}) {
	asking, asked := context.WithTimeout(ctx, max(warming, s.timeout))
	go func() { // the caller does not wait for its end, which an unreachable server delays by seconds
		defer asked()
		refused, wait := false, minResubscribe
		for ctx.Err() == nil {
			err := s.listen(ctx, channel, f, func() {
				asked()
				wait = minResubscribe
				if refused {
					refused = false
					state(nil)
				}
			})
			asked()
			if IsRefusal(err) && !refused {
				refused = true
				state(err)
			}
			again := time.NewTimer(wait)
			select {
			case <-again.C:
			case <-ctx.Done():
			}
			again.Stop()
			wait = min(2*wait, maxResubscribe)
		}
	}()
	return asking.Done()
}

// listen calls subscribed, and then f with each text of the channel until the subscription ends.
func (s *Store) listen(ctx context.Context, channel string, f func(text string), subscribed func()) error {
	subscription := s.client.Subscribe(ctx, channel)
	defer func() { _ = subscription.Close() }()
	// By itself go-redis neither reports a refusal nor subscribes again after one.
	if _, err := subscription.ReceiveTimeout(ctx, max(warming, s.timeout)); err != nil {
		return err
	}
	subscribed()
	for pinged := false; ctx.Err() == nil; {
		message, err := subscription.ReceiveTimeout(ctx, pingEvery)
		failure, ok := errors.AsType[net.Error](err)
		switch {
		case err == nil:
			pinged = false
			if m, ok := message.(*redis.Message); ok {
				f(m.Payload)
			}
		case pinged || !ok || !failure.Timeout():
			return err
		default:
			if err := subscription.Ping(ctx); err != nil {
				return err
			}
			pinged = true
		}
	}
	return ctx.Err()
}
