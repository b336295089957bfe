package shared

import "context"

// Publish sends a text to all processes that subscribe to the channel now.
func (s *Store) Publish(ctx context.Context, channel, text string) error {
	return s.client.Publish(ctx, channel, text).Err()
}

// Subscribe calls f for each text of the channel, one after the other, until ctx is done. What is published while the
// server is unreachable does not come. ready is closed when the server has been asked, or when that takes longer than Warm
// may.
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
