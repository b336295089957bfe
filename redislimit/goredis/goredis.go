// Package goredis makes a redislimit.Store of a go-redis client.
package goredis

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/redislimit"
)

// New returns a store on the client: a single server's, a sentinel's, a cluster's or a
// ring's. The client stays yours to close, after the limiters.
//
// A script is never sent again after its bytes were sent, whatever the client's MaxRetries;
// a cluster's redirections are followed. A call to a single server, or through a sentinel,
// ends when its context does, whatever the client's options; for a cluster or a ring set
// ContextTimeoutEnabled. Without it a decision is still made in time, but the connection
// stays busy until the client's ReadTimeout. A single server's hooks see the scripts only if its
// ContextTimeoutEnabled is set.
//
// Takes of many token buckets that come at the same time travel in one script call; see
// [redislimit.Batches]. Other calls for a single server, or through a sentinel, that come at the same time travel together in
// pipelines, on two connections. For a cluster or a ring let the client's pool have room for one
// connection for each limiter that is asked at the same time. One more is opened for each
// concurrency limit that somebody waits for.
func New(c redis.UniversalClient) redislimit.Store {
	s := &store{client: c, process: func(ctx context.Context, cmd once) error { return c.Process(ctx, cmd) }}
	if single, ok := c.(*redis.Client); ok {
		view := single
		if o := single.Options(); !o.ContextTimeoutEnabled {
			// The same connections, and options of its own, but not the hooks.
			view = single.WithTimeout(o.ReadTimeout)
			view.Options().WriteTimeout = o.WriteTimeout
			view.Options().ContextTimeoutEnabled = true
		}
		b := &batches{process: view.Process, pipeline: view.Pipeline}
		s.process, s.prompt = b.send, true
		s.batches = new(redislimit.Batches)
	}
	return s
}

type store struct {
	client  redis.UniversalClient
	process func(context.Context, once) error
	prompt  bool
	batches *redislimit.Batches // nil: the keys lie in many places
}

// Prompt reports that Run returns by its context's deadline.
func (s *store) Prompt() bool { return s.prompt }

// Batches returns what has takes of many keys travel in one script call.
func (s *store) Batches() *redislimit.Batches { return s.batches }

// once is a command that go-redis does not send again.
type once struct{ *redis.Cmd }

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
	reply, err := s.send(ctx, a)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		b := slices.Clone(a)
		b[0], b[1] = "eval", script.Source()
		reply, err = s.send(ctx, b)
	}
	return reply, err
}

func (s *store) send(ctx context.Context, args []any) ([]int64, error) {
	cmd := redis.NewCmd(ctx, args...)
	if err := s.process(ctx, once{cmd}); err != nil {
		return nil, err
	}
	return cmd.Int64Slice()
}

// Subscribe implements [redislimit.Store].
func (s *store) Subscribe(ctx context.Context, channel string, f func()) (func(), error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ps := s.client.Subscribe(lasting, channel)
	if _, err := ps.Receive(ctx); err != nil {
		cancel()
		_ = ps.Close() // what is wrong is known
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		receive(lasting, ps, f)
	}()
	return func() {
		cancel()
		_ = ps.Close() // it ends a Receive
		<-ended
	}, nil
}

// receive calls f for each message, and for each subscription that is made anew, as
// messages may have been lost.
func receive(ctx context.Context, ps *redis.PubSub, f func()) {
	const pause = 100 * time.Millisecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for ctx.Err() == nil {
		message, err := ps.Receive(ctx)
		if err != nil {
			timer.Reset(pause)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			continue
		}
		switch message.(type) {
		case *redis.Message, *redis.Subscription:
			f()
		}
	}
}
