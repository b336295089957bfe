// Package rueidis makes a redislimit.Store of a rueidis client.
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

// New returns a store on the client: a single server's, a sentinel's or a cluster's. The
// client stays yours to close, after the limiters. rueidis does not send scripts again.
//
// One more connection is used for each concurrency limit that somebody waits for.
//
// The client's defaults are good for a limiter. Let MaxFlushDelay be 0, or a caller alone
// waits for it.
func New(c rueidis.Client) redislimit.Store {
	s := &store{client: c, prompt: c.Mode() == rueidis.ClientModeStandalone}
	if c.Mode() != rueidis.ClientModeCluster {
		s.batches = new(redislimit.Batches)
	}
	s.shaky.Store(true)
	return s
}

type store struct {
	client  rueidis.Client
	prompt  bool
	batches *redislimit.Batches // nil: the keys lie in many places
	shaky   atomic.Bool         // the latest call failed, or there was none
}

// Prompt reports that Run returns by its context's deadline.
func (s *store) Prompt() bool { return s.prompt }

// Batches returns what has takes of many keys travel in one script call.
func (s *store) Batches() *redislimit.Batches { return s.batches }

// Run implements [redislimit.Store].
func (s *store) Run(ctx context.Context, script *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	if s.prompt && s.shaky.Load() {
		// It may have to connect, and rueidis then waits for others who do, however long that takes.
		return s.runBehind(ctx, script, keys, args)
	}
	return s.run(ctx, script, keys, args)
}

func (s *store) run(ctx context.Context, script *redislimit.Script, keys []string, args []int64) ([]int64, error) {
	var room [16]string // so that few numbers need no other memory
	text := format(room[:0], args)
	c := s.client.B().Evalsha().Sha1(script.SHA1()).Numkeys(int64(len(keys))).Key(keys...).Arg(text...).Build()
	reply, err := s.client.Do(ctx, c).AsIntSlice()
	e, answered := rueidis.IsRedisErr(err)
	if answered && e.IsNoScript() {
		c = s.client.B().Eval().Script(script.Source()).Numkeys(int64(len(keys))).Key(keys...).Arg(text...).Build()
		reply, err = s.client.Do(ctx, c).AsIntSlice()
		_, answered = rueidis.IsRedisErr(err)
	}
	if shaky := err != nil && !answered; shaky != s.shaky.Load() {
		s.shaky.Store(shaky)
	}
	return reply, err
}

// runBehind is run on another goroutine, which is left alone when the context ends.
func (s *store) runBehind(ctx context.Context, script *redislimit.Script, keys []string, args []int64) ([]int64, error) {
	type result struct {
		reply []int64
		err   error
	}
	done := make(chan result, 1)
	args = slices.Clone(args) // the caller's own again once Run has returned
	go func() {
		reply, err := s.run(ctx, script, keys, args)
		done <- result{reply, err}
	}()
	select {
	case r := <-done:
		return r.reply, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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

// Subscribe implements [redislimit.Store].
func (s *store) Subscribe(ctx context.Context, channel string, f func()) (func(), error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	subscribed, ended := make(chan struct{}, 1), make(chan struct{})
	var failed error
	hooked := rueidis.WithOnSubscriptionHook(lasting, func(sub rueidis.PubSubSubscription) {
		if sub.Kind == "subscribe" {
			select {
			case subscribed <- struct{}{}:
			default:
			}
		}
	})
	go func() {
		defer close(ended)
		// A connection of its own: some servers, as miniredis, run no scripts on one that is subscribed.
		own, release := s.client.Dedicate()
		defer release()
		failed = own.Receive(hooked, own.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) { f() })
	}()
	select {
	case <-subscribed:
	case <-ended:
		cancel()
		return nil, failed
	case <-ctx.Done():
		cancel()
		<-ended
		return nil, ctx.Err()
	}
	return func() {
		cancel()
		<-ended
	}, nil
}
