// Package shared makes limiters and queues that processes share through a Redis server.
package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	neturl "net/url"
	"slices"
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
	client  *redis.Client
	store   redislimit.Store
	timeout time.Duration
}

// retries is how often a call is tried again, so that a server that restarts has about a second. A limiter's decision is not
// tried again.
const retries = 8

// Open returns the server of a URL such as redis://127.0.0.1:6379/0. It does not connect yet. A decision may take as long
// as timeout; 0 means 50 ms. The text of an error does not contain the URL.
func Open(url string, timeout time.Duration) (*Store, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, urlError(url, err)
	}
	redis.SetLogger(silent{}) // errors say what is wrong
	o.DisableIdentity = true
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	o.MaxRetries = retries
	c := redis.NewClient(o)
	return &Store{c, goredis.New(c), timeout}, nil
}

// urlError returns the error for a URL that the client cannot read.
func urlError(url string, err error) error {
	scheme, _, ok := strings.Cut(url, "://")
	switch {
	case strings.Contains(url, "@"): // err may contain a part of the password
		return errors.New("want redis://USER:PASSWORD@HOST:PORT/DB, with %40 for an @ in the password, %2F for a / and %25 for a %")
	case !ok || !slices.Contains([]string{"redis", "rediss", "unix"}, scheme):
		return errors.New("want a URL such as redis://HOST:PORT/DB")
	}
	if wrong, ok := errors.AsType[*neturl.Error](err); ok {
		err = wrong.Err // without the URL, which the caller names
	}
	return errors.New(strings.TrimPrefix(err.Error(), "redis: "))
}

// WithoutPassword returns a URL without the part before its host.
func WithoutPassword(url string) string {
	if at := strings.LastIndexByte(url, '@'); at >= 0 {
		return "..." + url[at:]
	}
	return url
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Close closes the connections. Close the limiters first.
func (s *Store) Close() error { return s.client.Close() }

// Limits returns the store for limiters that others make.
func (s *Store) Limits() redislimit.Store { return s.store }

// New returns a limiter. It sets the Store of options, and the Timeout if that is 0.
func (s *Store) New(l spec.Limit, name string, options redislimit.Options) (core.Limiter, error) {
	if l.Kind == spec.Unlimited || l.Kind == spec.Blocked || l.Kind == spec.Paused {
		return l.New(name)
	}
	o, err := l.Options(name)
	if err != nil {
		return nil, err
	}
	options.Store, options.Timeout = s.store, cmp.Or(options.Timeout, s.timeout)
	return redislimit.New(o, options)
}

// warming is how long Warm may take, unless a decision may take longer.
const warming = time.Second

// Warm connects to the server and loads the scripts of limits of each kind, so that the first requests do not wait for that. It takes
// no permits. If the server is unreachable it returns why, and the options of each limiter apply.
func (s *Store) Warm() error {
	limits := []spec.Limit{
		{Kind: spec.Concurrency, Permits: 1},
		{Kind: spec.TokenBucket, Permits: 1, Per: time.Second},
		{Kind: spec.FixedWindow, Permits: 1, Per: time.Second},
		{Kind: spec.SlidingWindow, Permits: 1, Per: time.Second},
	}
	errs := make([]error, len(limits))
	var all sync.WaitGroup
	for i, l := range limits {
		all.Go(func() { errs[i] = s.look(l, fmt.Sprintf("sluice/warm-%d", i)) })
	}
	all.Wait()
	return cmp.Or(errs...)
}

// look calls the server about a limit.
func (s *Store) look(l spec.Limit, key string) error {
	made, err := s.New(l, "warm", redislimit.Options{Key: key, Timeout: max(warming, s.timeout)})
	if err != nil {
		return nil // the constructor of the limiter reports it
	}
	if c, ok := made.(io.Closer); ok {
		defer func() { _ = c.Close() }()
	}
	if err := made.TryAcquire(0).Err(); errors.Is(err, redislimit.ErrStore) {
		return err
	}
	return nil
}
