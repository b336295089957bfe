// Package shared makes limiters and queues that processes share through a Redis server.
package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
	"github.com/sluice-go/sluice/spec"
)

// Store is a Redis server.
type Store struct {
	client *redis.Client
	store  redislimit.Store
	budget time.Duration
}

// Open returns the server of a URL such as redis://127.0.0.1:6379/0. It does not connect yet. A decision may take as long
// as budget; 0: 50 ms.
func Open(url string, budget time.Duration) (*Store, error) {
	o, err := redis.ParseURL(url)
	if err != nil && strings.Contains(url, "@") {
		return nil, errURL // err may have a part of the password
	}
	if err != nil {
		return nil, err
	}
	redis.SetLogger(silent{}) // errors say what is wrong
	o.DisableIdentity = true
	c := redis.NewClient(o)
	return &Store{c, goredis.New(c), budget}, nil
}

var errURL = errors.New("want redis://USER:PASSWORD@HOST:PORT/DB, with %40 for an @ in the password, %2F for a / and %25 for a %")

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Close closes the connections. Close the limiters first.
func (s *Store) Close() error { return s.client.Close() }

// New returns a limiter. It sets the Store of options, and the Timeout if that is 0.
func (s *Store) New(l spec.Limit, name string, options redislimit.StoreOptions) (core.Limiter, error) {
	made, err := l.New(name)
	if err != nil {
		return nil, err
	}
	options.Store, options.Timeout = s.store, cmp.Or(options.Timeout, s.budget)
	switch t := made.(type) {
	case *core.ConcurrencyLimiter:
		made, err = redislimit.NewConcurrencyLimiter(redislimit.ConcurrencyLimiterOptions{ConcurrencyLimiterOptions: t.Options(), Shared: options})
	case *core.TokenBucket:
		made, err = redislimit.NewTokenBucket(redislimit.TokenBucketOptions{TokenBucketOptions: t.Options(), Shared: options})
	case *core.FixedWindow:
		made, err = redislimit.NewFixedWindow(redislimit.FixedWindowOptions{FixedWindowOptions: t.Options(), Shared: options})
	case *core.SlidingWindow:
		made, err = redislimit.NewSlidingWindow(redislimit.SlidingWindowOptions{SlidingWindowOptions: t.Options(), Shared: options})
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}

// warming is how long Warm may take, unless a decision may take longer.
const warming = time.Second

// Warm connects to the server and loads the scripts of the limits, so that the first requests do not wait for
// that. It takes no permits. An unreachable server is no error here: the options of each limiter say what happens then.
func (s *Store) Warm(limits []spec.Limit) {
	var all sync.WaitGroup
	defer all.Wait()
	for i, l := range limits {
		all.Go(func() { s.look(l, fmt.Sprintf("sluice/warm-%d", i)) })
	}
}

// look asks the server for the state of a limit.
func (s *Store) look(l spec.Limit, key string) {
	made, err := s.New(l, "warm", redislimit.StoreOptions{Key: key, Timeout: max(warming, s.budget)})
	if err != nil {
		return
	}
	if asked, ok := made.(interface {
		core.Reporter
		Close() error
	}); ok {
		_ = asked.Statistics()
		_ = asked.Close()
	}
}

// Update puts l in force in a limiter of New's, and in the local one that decides while the server is unreachable. It
// updates any other limiter too.
func Update(l spec.Limit, limiter core.Limiter) error {
	var local core.Limiter
	var err error
	switch t := limiter.(type) {
	case *redislimit.ConcurrencyLimiter:
		o := t.Options()
		local = o.Shared.Local
		err = update(l, o.Name, func(c *core.ConcurrencyLimiter) error {
			return t.Update(redislimit.ConcurrencyLimiterOptions{ConcurrencyLimiterOptions: c.Options()})
		})
	case *redislimit.TokenBucket:
		o := t.Options()
		local = o.Shared.Local
		err = update(l, o.Name, func(c *core.TokenBucket) error {
			return t.Update(redislimit.TokenBucketOptions{TokenBucketOptions: c.Options()})
		})
	case *redislimit.FixedWindow:
		o := t.Options()
		local = o.Shared.Local
		err = update(l, o.Name, func(c *core.FixedWindow) error {
			return t.Update(redislimit.FixedWindowOptions{FixedWindowOptions: c.Options()})
		})
	case *redislimit.SlidingWindow:
		o := t.Options()
		local = o.Shared.Local
		err = update(l, o.Name, func(c *core.SlidingWindow) error {
			return t.Update(redislimit.SlidingWindowOptions{SlidingWindowOptions: c.Options()})
		})
	default:
		return l.Update(limiter)
	}
	if local != nil {
		err = errors.Join(err, l.Update(local))
	}
	return err
}

// update calls f with a limiter of l, if it is of f's kind.
func update[L core.Limiter](l spec.Limit, name string, f func(L) error) error {
	made, err := l.New(name)
	if err != nil {
		return err
	}
	same, ok := made.(L)
	if !ok {
		return fmt.Errorf("%w: %s", spec.ErrKind, l.Kind)
	}
	return f(same)
}
