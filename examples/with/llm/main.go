// Llm is a gateway in front of a language model. It limits each account's requests and tokens per minute.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/examples/internal/program"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

const text = `llm is a gateway before a language model: each account has requests and tokens a minute

usage: llm [flags]

    go run ./llm                                  with a Redis server in memory
    go run ./llm -redis redis://localhost:6379

The cost of a request is known only after it was answered. The gateway takes an estimate, settles the
actual cost, and refunds what a client that hung up did not use. Two gateways share the limits on Redis.`

func main() { program.Main(text, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	took := flags.Duration("for", 10*time.Second, "how long the clients ask, a minute at most")
	clients := flags.Int("clients", 100, "clients, at least 1")
	url := flags.String("redis", "", "a Redis server, as redis://localhost:6379; \"\": one in memory")
	return func(ctx context.Context, args []string) error {
		if err := program.NoArguments(args); err != nil {
			return err
		}
		switch {
		case *took <= 0 || *took > time.Minute:
			return program.Usage("-for = %v, want more than 0 and at most a minute", *took)
		case *clients < 1:
			return program.Usage("-clients = %d, want at least 1", *clients)
		}
		client, stop, err := open(*url)
		if err != nil {
			return err
		}
		defer stop()
		prefix := "llm" + strconv.FormatInt(time.Now().UnixNano(), 36) // each run has its own limits
		used := ledger{used: make(map[string]int)}
		urls, stopped, err := start(onStore(goredis.New(client), prefix, gateways), &used)
		if err != nil {
			return err
		}
		l := load{clients: *clients, time: *took, gateways: urls}
		passed, rejected, err := l.run(ctx)
		if err := errors.Join(err, stopped()); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(s.Out, "%d clients of %d accounts for %v: %d requests let through, %d rejected\n", *clients, accounts, *took, passed, rejected)
		most := used.most()
		_, _ = fmt.Fprintf(s.Out, "%d tokens at most for an account that may have %d in a minute\n", most, tokensPerMinute)
		if bound := tokensPerMinute + l.inFlight(); most > bound {
			return fmt.Errorf("an account used %d tokens, want at most %d", most, bound)
		}
		return nil
	}
}

// gateways is how many share the limits.
const gateways = 2

// open returns a client of the Redis server at the URL, or of an in-memory one.
func open(url string) (client *redis.Client, stop func(), err error) {
	if url != "" {
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, nil, program.Usage("-redis: not the URL of a Redis, want redis://localhost:6379") // err has its password
		}
		client = redis.NewClient(o)
		return client, func() { _ = client.Close() }, nil
	}
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return nil, nil, err
	}
	client = redis.NewClient(&redis.Options{Addr: m.Addr()})
	return client, func() {
		_ = client.Close()
		m.Close()
	}, nil
}

// start starts the gateways in front of the model and returns their URLs.
func start(limiter newLimiter, used *ledger) (urls []string, stop func() error, err error) {
	backend := httptest.NewServer(http.HandlerFunc(model))
	stop = func() error { backend.Close(); return nil }
	keys := make(map[string]string, accounts)
	for i := range accounts {
		keys[apiKey(i)] = accountName(i)
	}
	for range gateways {
		limits, err := newLimits(limiter)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		g := &gateway{accounts: keys, model: backend.URL, client: http.DefaultClient, bill: used.add}
		server := httptest.NewServer(g.handler(limits.Limits))
		urls = append(urls, server.URL)
		before := stop
		stop = func() error { server.Close(); return errors.Join(limits.close(), before()) }
	}
	return urls, stop, nil
}

// ledger counts the tokens that each account has used.
type ledger struct {
	mu   sync.Mutex
	used map[string]int
}

func (l *ledger) add(account string, tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[account] += tokens
}

// most returns the tokens of the account that used most.
func (l *ledger) most() (most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.used {
		most = max(most, n)
	}
	return most
}
