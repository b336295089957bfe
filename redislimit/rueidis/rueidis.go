// Package rueidis makes a [redislimit.Store] of a rueidis client:
//
//	client, err := client.NewClient(client.ClientOption{InitAddress: []string{"localhost:6379"}})
//	...
//	limiter, err := redislimit.NewTokenBucket(redislimit.TokenBucketOptions{
//		TokenBucketOptions: core.PerSecond(1000, 100),
//		Shared:             redislimit.Shared{Store: rueidis.New(client), Key: "orders"},
//	})
package rueidis

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/redislimit"
)

// New returns a store that runs scripts by c: the client of a single server, of a Sentinel or of a cluster. The
// client remains the caller's, who closes it after the limiters. A store is safe for concurrent use.
//
// rueidis does not send a script again, and Run returns when its context is done. A connection is made apart from the
// decision that wants it, and kept, even if the decision does not wait so long; its script may then be sent after it has
// ended, and what it takes counts as taken.
//
// The client's defaults suit a limiter. Leave MaxFlushDelay at 0, as a single caller waits for it. One more
// connection is used for each concurrency limiter that a caller waits for.
func New(c rueidis.Client) redislimit.Store {
	s := &store{client: c}
	s.doubt.Store(doubtful)
	return s
}

type store struct {
	client rueidis.Client
	doubt  atomic.Int32 // calls to be answered until all connections are taken to be there
}

// doubtful is how many calls make it sure that each connection was used: a client has four, unless PipelineMultiplex says
// otherwise, and a call uses one of them at random.
const doubtful = 64

// Prompt reports that Run returns by its context's deadline.
func (*store) Prompt() bool { return true }

// Run implements [redislimit.Store].
func (s *store) Run(ctx context.Context, script *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	if s.doubt.Load() == 0 && s.client.Mode() == rueidis.ClientModeStandalone {
		return s.run(ctx, script, keys, args)
	}
	return s.runApart(ctx, script, keys, args)
}

// runApart is run on another goroutine, which is left alone when ctx ends: rueidis connects in the time of a call that
// wants it, and has others wait for that, however long it takes. With a cluster or a Sentinel it may also have to ask
// where the server is.
func (s *store) runApart(ctx context.Context, script *redislimit.Script, keys []string, args []int64) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type result struct {
		reply []int64
		err   error
	}
	done := make(chan result, 1)
	keys, args = slices.Clone(keys), slices.Clone(args) // the caller's own again once Run has returned
	go func() {
		reply, err := s.run(context.WithoutCancel(ctx), script, keys, args)
		done <- result{reply, err}
	}()
	select {
	case r := <-done:
		return r.reply, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *store) run(ctx context.Context, script *redislimit.Script, keys []string, args []int64) ([]int64, error) {
	var room [16]string // so that few numbers need no other memory
	text := format(room[:0], args)
	c := s.client.B().Evalsha().Sha1(script.SHA1()).Numkeys(int64(len(keys))).Key(keys...).Arg(text...).Build()
	reply, err := s.client.Do(ctx, c).AsIntSlice()
	if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() {
		c = s.client.B().Eval().Script(script.Source()).Numkeys(int64(len(keys))).Key(keys...).Arg(text...).Build()
		reply, err = s.client.Do(ctx, c).AsIntSlice()
	}
	if _, answered := rueidis.IsRedisErr(err); err != nil && !answered {
		s.doubt.Store(doubtful)
	} else if n := s.doubt.Load(); n > 0 {
		s.doubt.CompareAndSwap(n, n-1)
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
