// Package goredis makes a [redislimit.Store] of a go-redis client:
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", DialerRetries: 1})
//	limiter, err := redislimit.New(core.PerSecond(1000, 100), redislimit.Options{
//		Store: goredis.New(client), Key: "orders",
//	})
package goredis

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/redislimit"
)

// New returns a store that runs scripts by c: the client of a single server, of a Sentinel, of a cluster or of a
// ring. The client remains the caller's, who closes it after the limiters. A store is safe for concurrent use.
//
// A script is never sent again after its bytes were sent, whatever the client's MaxRetries. Redirections of a cluster are
// followed. When a node of a cluster does not reply, the client reloads the cluster's slots. Each node of a cluster or a ring has a
// circuit breaker of its own, so one that is silent does not affect limits on the others.
//
// A connection is not bound to the decision that needs it: it is completed even if that decision has timed out, and kept. The
// script may then be sent late, and permits that it takes count as taken.
//
// Set the client's DialerRetries to 1, so that a refused connection is an immediate failure. By default go-redis tries five times,
// which takes 400 ms. Then a decision ends with its Timeout instead, with an error that matches [redislimit.ErrTimeout]; the error
// of a later decision contains the reason. After three such decisions only probes of the breaker wait.
//
// With a single server or a Sentinel, up to eight concurrent calls have a connection each, and more share pipelines. With a
// cluster or a ring, the pool should have as many connections as there are concurrent calls. Each concurrency limiter uses one
// more connection while callers wait for it.
func New(c redis.UniversalClient) redislimit.Store {
	s := &store{client: c, process: c.Process}
	switch c := c.(type) {
	case *redis.Client:
		p := &pipelines{client: prompt(c)}
		s.process, s.prompt = p.process, true
	case *redis.ClusterClient:
		s.nodeOf = func(key string) (*redis.Client, error) {
			return c.MasterForKey(context.Background(), key) //nolint:forbidigo // it does not wait, as the slots are loaded
		}
		s.process = func(ctx context.Context, cmd redis.Cmder) error {
			err := c.Process(ctx, cmd)
			if !answered(err) {
				// There may be a new primary. By itself go-redis asks only once a minute, or when a node redirects it.
				c.ReloadState(ctx)
			}
			return err
		}
	case *redis.Ring:
		s.nodeOf = c.GetShardClientForKey
	}
	return s
}

type store struct {
	client  redis.UniversalClient
	process func(context.Context, redis.Cmder) error
	prompt  bool // process ends with its context
	nodeOf  func(key string) (*redis.Client, error)
	known   atomic.Bool  // a script has run, so the client has loaded the nodes
	replies atomic.Int32 // number of replies in a row, up to certain
}

// certain is how many replies in a row make it likely that a connection is ready. A ready store gives up a connection that is not
// made by the call's deadline, and a single reply may be that of a probe after a failure.
const certain = few + 1

// Ready implements an option of [redislimit.Store].
func (s *store) Ready() bool { return s.prompt && s.replies.Load() >= certain }

// prompt returns a client that shares the connections of c and obeys the deadlines of contexts.
func prompt(c *redis.Client) *redis.Client {
	o := c.Options()
	if o.ContextTimeoutEnabled {
		return c
	}
	view := c.WithTimeout(o.ReadTimeout)
	view.Options().WriteTimeout = o.WriteTimeout
	view.Options().ContextTimeoutEnabled = true
	return view
}

// once is a command that go-redis does not retry.
type once struct{ *redis.IntSliceCmd }

func (once) NoRetry() bool { return true }

// Run implements [redislimit.Store].
func (s *store) Run(ctx context.Context, script *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	a := make([]any, 0, 3+len(keys)+len(args))
	a = append(a, "evalsha", script.SHA1(), len(keys))
	for _, k := range keys {
		a = append(a, k)
	}
	for _, n := range args {
		a = append(a, n)
	}
	cmd := once{redis.NewIntSliceCmd(ctx, a...)}
	err := s.process(ctx, cmd)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		b := slices.Clone(a)
		b[0], b[1] = "eval", script.Source()
		cmd = once{redis.NewIntSliceCmd(ctx, b...)}
		err = s.process(ctx, cmd)
	}
	if !answered(err) {
		s.replies.Store(0)
		return nil, err
	}
	if s.replies.Load() < certain {
		s.replies.Add(1)
	}
	if err != nil {
		return nil, redislimit.Refused(err)
	}
	if !s.known.Load() {
		s.known.Store(true)
	}
	return cmd.Val(), nil
}

// answered reports whether the server has replied, even if with an error.
func answered(err error) bool {
	if err == nil {
		return true
	}
	var reply redis.Error
	return errors.As(err, &reply)
}

// Node implements an option of [redislimit.Store].
func (s *store) Node(key string) string {
	if s.nodeOf == nil || !s.known.Load() {
		return ""
	}
	c, err := s.nodeOf(key)
	if err != nil { // no node has the slot
		return ""
	}
	return c.Options().Addr
}

// Client implements an option of [redislimit.Store].
func (s *store) Client() any { return s.client }
