// Package shared makes limits that live on a Redis server, for all processes that name them alike.
package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// Open returns the server of a URL such as redis://127.0.0.1:6379/0. It is not asked yet. A decision may take as long as
// budget; 0: 50 ms.
func Open(url string, budget time.Duration) (*Store, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	redis.SetLogger(silent{}) // who asks a limit is told what is wrong
	o.DisableIdentity = true
	c := redis.NewClient(o)
	return &Store{c, goredis.New(c), budget}, nil
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Close ends the connections. The limiters are closed before.
func (s *Store) Close() error { return s.client.Close() }

// New returns the limiter of that name. Of terms the Store is set here, and the Budget if it is 0.
func (s *Store) New(l spec.Limit, name string, terms redislimit.Shared) (core.Limiter, error) {
	made, err := l.New(name)
	if err != nil {
		return nil, err
	}
	terms.Store, terms.Budget = s.store, cmp.Or(terms.Budget, s.budget)
	switch t := made.(type) {
	case *core.ConcurrencyLimiter:
		made, err = redislimit.NewConcurrencyLimiter(redislimit.ConcurrencyLimiterOptions{ConcurrencyLimiterOptions: t.Options(), Shared: terms})
	case *core.TokenBucket:
		made, err = redislimit.NewTokenBucket(redislimit.TokenBucketOptions{TokenBucketOptions: t.Options(), Shared: terms})
	case *core.FixedWindow:
		made, err = redislimit.NewFixedWindow(redislimit.FixedWindowOptions{FixedWindowOptions: t.Options(), Shared: terms})
	case *core.SlidingWindow:
		made, err = redislimit.NewSlidingWindow(redislimit.SlidingWindowOptions{SlidingWindowOptions: t.Options(), Shared: terms})
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}

const (
	warming = time.Second // how long Warm may take, if a decision may not take longer
	lanes   = 2           // connections that a goredis store sends on
)

// Warm opens the connections to the server and has it load the scripts of the limits, so that the first who ask do not
// wait for that. It takes no permits. A server that is away is no error: each limit's terms say what happens then.
func (s *Store) Warm(limits []spec.Limit) {
	var all sync.WaitGroup
	defer all.Wait()
	for range lanes {
		for i, l := range limits {
			all.Go(func() { s.look(l, fmt.Sprintf("sluice/warm-%d", i)) })
		}
	}
}

// look asks the server how a limit stands.
func (s *Store) look(l spec.Limit, key string) {
	made, err := s.New(l, "warm", redislimit.Shared{Key: key, Budget: max(warming, s.budget)})
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

// Update puts l in force in a limiter of New's, and in the one that decides while the server is away. One that is not
// of New's is updated too.
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

// update hands the limiter that l says to f, if it is of f's kind.
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
