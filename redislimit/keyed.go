package redislimit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/sluice-go/sluice/core"
)

// KeyedOptions are the options of a [Keyed].
type KeyedOptions struct {
	Options // options of all limits; the Key is the prefix of their keys in Redis

	// MaxKeys is the maximum number of keys that this process remembers. 0 means 10,000. The limits
	// are in the store, so a key that is not remembered is still limited; a request for it calls
	// the store.
	MaxKeys int
}

// Keyed has a token bucket per key in the store. Each request states the limit of its key, which may be part of a customer's
// plan, for example, and is decided by that limit. If you want other kinds of limits, or if the limit of a key rarely changes, use package
// partition instead.
//
// It is safe for concurrent use. Create it with [NewKeyed]; the zero value fails with [core.ErrClosed].
type Keyed struct {
	options KeyedOptions

	mu   sync.Mutex      // guards keys
	keys map[plan]*keyed // nil after Close
}

// plan is a key with a limit. If a key is asked with two limits, each has a limiter, and both take from the same bucket.
type plan struct {
	key   string
	limit core.TokenBucketOptions
}

// keyed is the limiter of a plan. The mutex of its Keyed guards callers.
type keyed struct {
	limiter *Limiter
	callers int // number of callers in a call; the limiter is not dropped while there are any
}

const (
	defaultMaxKeys = 10_000
	maxKeyLength   = 200
)

// NewKeyed returns a Keyed, or an error that lists all invalid options. It does not call the store.
func NewKeyed(o KeyedOptions) (*Keyed, error) {
	f := newFaults()
	o.validate(f)
	if o.MaxKeys < 0 {
		f.Add("KeyedOptions.MaxKeys", o.MaxKeys, "at least 0")
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	o.MaxKeys = cmp.Or(o.MaxKeys, defaultMaxKeys)
	return &Keyed{options: o, keys: make(map[plan]*keyed)}, nil
}

// TryAcquire takes permits of the key's bucket if they are available now, like [Limiter.TryAcquire]. If the limit
// differs from that of the latest request, the key's bucket continues with the new one.
func (k *Keyed) TryAcquire(key string, limit core.TokenBucketOptions, permits int) core.Lease {
	e, err := k.enter(key, limit)
	if err != nil {
		return core.Fail(err)
	}
	defer k.leave(e)
	return e.limiter.TryAcquire(permits)
}

// Acquire takes permits of the key's bucket, and waits for them if the QueueLimit of the limit allows, like
// [Limiter.Acquire].
func (k *Keyed) Acquire(ctx context.Context, key string, limit core.TokenBucketOptions, permits int) (core.Lease, error) {
	e, err := k.enter(key, limit)
	if err != nil {
		return core.Fail(err), err
	}
	defer k.leave(e)
	return e.limiter.Acquire(ctx, permits)
}

// Close ends every wait with [core.ErrClosed], returns prefetched permits, and fails all later requests.
func (k *Keyed) Close() error {
	k.mu.Lock()
	keys := k.keys
	k.keys = nil
	k.mu.Unlock()
	if keys == nil {
		return nil
	}
	var all sync.WaitGroup
	for _, e := range keys {
		all.Go(func() { _ = e.limiter.Close() })
	}
	all.Wait()
	return nil
}

// Len returns how many keys this process remembers.
func (k *Keyed) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.keys)
}

// enter returns the limiter of a key with that limit, or a new one. The limiter is not dropped before leave.
func (k *Keyed) enter(key string, limit core.TokenBucketOptions) (*keyed, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil {
		return nil, core.ErrClosed
	}
	p := plan{key, limit}
	e := k.keys[p]
	if e == nil {
		o := k.options.Options
		o.Key += "/" + redisKey(key)
		l, err := New(limit, o)
		if err != nil {
			return nil, err
		}
		k.makeRoomLocked()
		e = &keyed{limiter: l}
		k.keys[p] = e
	}
	e.callers++
	return e, nil
}

func (k *Keyed) leave(e *keyed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.callers--
}

// makeRoomLocked drops a random key if there are too many. It looks at no more than two keys, however many are in use.
func (k *Keyed) makeRoomLocked() {
	looks := 0
	for key, e := range k.keys {
		looks++
		if len(k.keys) < k.options.MaxKeys || looks > 2 {
			return
		}
		if e.callers == 0 {
			delete(k.keys, key)
			go func() { _ = e.limiter.Close() }() // it may wait for the store
		}
	}
}

// redisKey returns the key as a part of a key in Redis: without braces, and not too long.
func redisKey(key string) string {
	if len(key) > maxKeyLength {
		sum := sha256.Sum256([]byte(key))
		return "%sha256:" + hex.EncodeToString(sum[:])
	}
	return escapes.Replace(key)
}

var escapes = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
