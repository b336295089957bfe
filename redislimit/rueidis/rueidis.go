// Package rueidis makes a [redislimit.Store] of a rueidis client:
//
//	client, err := client.NewClient(client.ClientOption{InitAddress: []string{"localhost:6379"}})
//	...
//	limiter, err := redislimit.New(core.PerSecond(1000, 100), redislimit.Options{
//		Store: rueidis.New(client), Key: "orders",
//	})
package rueidis

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/redislimit"
)

// New returns a store that runs scripts by c: the client of a single server, of a Sentinel or of a cluster. The
// client remains the caller's, who closes it after the limiters. A store is safe for concurrent use.
//
// rueidis does not send a script again. A connection is not bound to the decision that needs it: it is completed even if that
// decision has timed out, and kept. The script may then be sent late, and permits that it takes count as taken.
//
// Each node of a cluster has a circuit breaker of its own, so one that is silent does not affect limits on the others. As rueidis does
// not tell which node has a key, the store asks the cluster, after the first call and after a call without a reply.
//
// If other code uses the client, too, a decision may have to wait for a connection that this code is making, for as long as the
// client's Dialer.Timeout, 5 s by default.
//
// The client's defaults suit a limiter. Leave MaxFlushDelay at 0, because a single caller would wait for it. Each concurrency
// limiter uses one more connection while callers wait for it.
func New(c rueidis.Client) redislimit.Store { return &store{client: c} }

type store struct {
	client  rueidis.Client
	slots   slots
	replies atomic.Int32 // number of replies in a row, up to certain
}

// certain is how many replies in a row make it certain that each connection is there. A client has four, unless PipelineMultiplex
// is set, and a call uses a random one. If it is missing, the call makes the connection, and other calls wait for that.
const certain = 64

// Ready implements an option of [redislimit.Store]. It returns false for a cluster or a Sentinel, because rueidis may have to ask
// for the server's address.
func (s *store) Ready() bool {
	return s.replies.Load() >= certain && s.client.Mode() == rueidis.ClientModeStandalone
}

// Run implements [redislimit.Store].
func (s *store) Run(ctx context.Context, script *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	text := make([]string, len(args))
	for i, n := range args {
		text[i] = strconv.FormatInt(n, 10)
	}
	c := s.client.B().Evalsha().Sha1(script.SHA1()).Numkeys(int64(len(keys))).Key(keys...).Arg(text...).Build()
	reply, err := s.client.Do(ctx, c).AsIntSlice()
	if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() {
		c = s.client.B().Eval().Script(script.Source()).Numkeys(int64(len(keys))).Key(keys...).Arg(text...).Build()
		reply, err = s.client.Do(ctx, c).AsIntSlice()
	}
	_, refused := rueidis.IsRedisErr(err)
	failed := err != nil && !refused
	if s.client.Mode() == rueidis.ClientModeCluster {
		s.slots.refresh(s.client, failed)
	}
	if failed {
		s.replies.Store(0)
		return nil, err
	}
	if s.replies.Load() < certain {
		s.replies.Add(1)
	}
	if refused {
		return nil, redislimit.Refused(err)
	}
	return reply, nil
}

// Client implements an option of [redislimit.Store].
func (s *store) Client() any { return s.client }
