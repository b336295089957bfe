package shared

import "context"

// Publish sends a text to all current subscribers of the channel.
func (s *Store) Publish(ctx context.Context, channel, text string) error {
	return s.client.Publish(ctx, channel, text).Err()
}

// Subscribe calls f with each text of the channel, one after the other, until ctx is done. Texts that are published
// while the server is unreachable are lost. ready is closed when the subscription was sent, or after as long as Warm may take.
func (s *Store) Subscribe(ctx context.Context, channel string, f func(text string)) (ready <-chan struct{}) {
	asking, asked := context.WithTimeout(ctx, max(warming, s.timeout))
	go func() { // the caller does not wait for its end, which an unreachable server delays by seconds
		subscription := s.client.Subscribe(ctx, channel) // if that fails, it is tried again for as long as there is the loop
		defer func() { _ = subscription.Close() }()
		asked()
		for {
			select {
			case m, ok := <-subscription.Channel():
				if !ok {
					return
				}
				f(m.Payload)
			case <-ctx.Done():
				return
			}
		}
	}()
	return asking.Done()
}
