// Package keyed is what the proxy and serve share about limiters per key. The limiters, and how they follow a configuration,
// are those of package partition.
package keyed

import (
	"hash/fnv"
	"io"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// groups is how many limiters the keys of a limit share for which there is no room: enough that a crowd of keys does not lock
// out the others, and few enough to cost next to nothing.
const groups = 1024

// Group returns the number of the group of a key, from 1 on.
func Group(key string) int {
	h := fnv.New32a()
	_, _ = io.WriteString(h, key)
	return 1 + int(h.Sum32()%groups)
}

// Live returns the limiter that decides the requests of a key: that of its partition or, if there was no room for one, that of its
// group. It creates none, and returns nil if neither is live.
func Live[K comparable](limiters *partition.Keyed[K, K], key K) core.Limiter {
	if l, ok := limiters.Get(key); ok {
		return l
	}
	if bound, ok := partition.For(limiters, key).(interface{ Asks() []core.Limiter }); ok {
		for _, l := range bound.Asks() {
			return l
		}
	}
	return nil
}

// Apply changes a limiter, in memory or on a Redis server, to options of its kind.
func Apply(l core.Limiter, o core.Options) error {
	if shared, ok := l.(interface{ Apply(o core.Options) error }); ok {
		return shared.Apply(o)
	}
	_, err := core.Apply(l, o)
	return err
}

// Reset resets a limiter, and returns an error if a Redis server has not confirmed that. It reports false for a limiter whose permits
// stay held, and for one that has none.
func Reset(l core.Limiter) (done bool, err error) {
	switch r := l.(type) {
	case interface{ TryReset() error }:
		err = r.TryReset()
		return err == nil, err
	case core.Resetter:
		r.Reset()
		return true, nil
	}
	return false, nil
}
