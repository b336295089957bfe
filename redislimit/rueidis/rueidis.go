// Package rueidis makes a [redislimit.Store] of a rueidis client:
//
//	client, err := client.NewClient(client.ClientOption{InitAddress: []string{"localhost:6379"}})
//	...
//	limiter, err := redislimit.NewTokenBucket(redislimit.TokenBucketOptions{
//		TokenBucketOptions: core.PerSecond(1000, 100),
//		Shared:             redislimit.StoreOptions{Store: rueidis.New(client), Key: "orders"},
//	})
package rueidis

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/redislimit"
)

// New returns a store that runs scripts by c: the client of a single server, of a Sentinel or of a cluster. The
// client remains the caller's, who closes it after the limiters. A store is safe for concurrent use.
//
// rueidis does not send a script again. A connection is made apart from the decision that wants it, and kept, even if the
// decision does not wait so long; its script may then be sent after it has ended, and what it takes counts as taken.
//
// The client's defaults suit a limiter. Leave MaxFlushDelay at 0, as a single caller waits for it. One more
// connection is used for each concurrency limiter that a caller waits for.
func New(c rueidis.Client) redislimit.Store { return &store{client: c} }

type store struct {
	client   rueidis.Client
	answered atomic.Int32 // calls in a row, up to certain
}

// certain is how many answers make it certain that each connection is there: a client has four, unless PipelineMultiplex
// says otherwise, and a call uses one of them at random. rueidis connects in the time of a call that wants a connection,
// and others wait for that, however long it takes.
const certain = 64

// Ready implements an option of [redislimit.Store]. With a cluster or a Sentinel rueidis may also have to ask where the
// server is.
func (s *store) Ready() bool {
	return s.answered.Load() >= certain && s.client.Mode() == rueidis.ClientModeStandalone
}

// Run implements [redislimit.Store].
func (s *store) Run(ctx context.Context, script *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	var room [16]string // so that few numbers need no other memory
	text := format(room[:0], args)
	c := s.client.B().Evalsha().Sha1(script.SHA1()).Numkeys(int64(len(keys))).Key(keys...).Arg(text...).Build()
	reply, err := s.client.Do(ctx, c).AsIntSlice()
	if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() {
		c = s.client.B().Eval().Script(script.Source()).Numkeys(int64(len(keys))).Key(keys...).Arg(text...).Build()
		reply, err = s.client.Do(ctx, c).AsIntSlice()
	}
	if _, answered := rueidis.IsRedisErr(err); err != nil && !answered {
		s.answered.Store(0)
	} else if s.answered.Load() < certain {
		s.answered.Add(1)
	}
	return reply, err
}

// format appends the numbers in decimal to text; they all lie in one string.
func format(text []string, args []int64) []string {
	const room = 128 // enough for one take
	if len(args) > cap(text) {
		text = make([]string, 0, len(args))
	}
	digits := make([]byte, 0, max(room, 8*len(args)))
	for _, n := range args {
		digits = strconv.AppendInt(digits, n, 10)
		digits = append(digits, ' ')
	}
	for all := string(digits); all != ""; {
		end := strings.IndexByte(all, ' ')
		text, all = append(text, all[:end]), all[end+1:]
	}
	return text
}

// Client implements an option of [redislimit.Store].
func (s *store) Client() any { return s.client }
