package shared

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const before, after = "{", "}:limit" // how redislimit names what it keeps

// Has reports whether the server has state of the limit of that key. It has none while all permits are available.
func (s *Store) Has(ctx context.Context, key string) (bool, error) {
	n, err := s.client.Exists(ctx, before+key+after).Result()
	return n > 0, failed(err)
}

const textKept = 24 * time.Hour

// Announce leaves the text of a key's limit on the server, for a day, and returns the previous one, or "".
func (s *Store) Announce(ctx context.Context, key, text string) (last string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	name := before + key + "}:text"
	var get *redis.StringCmd
	_, err = s.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		get = p.Get(ctx, name)
		p.Set(ctx, name, text, textKept)
		return nil
	})
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return get.Val(), nil
}
