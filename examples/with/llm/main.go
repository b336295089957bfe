// Llm is a gateway in front of a language model. It limits each account's requests and tokens per minute.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/sluice-go/sluice/examples/internal/program"
)

const text = `llm is a gateway before a language model: each account has requests and tokens a minute

usage: llm [flags]

    go run ./llm

The cost of a request is known only after it was answered. The gateway takes an estimate, settles the
actual cost, and refunds what a client that hung up did not use.`

func main() { program.Main(text, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	took := flags.Duration("for", 10*time.Second, "how long the clients ask, a minute at most")
	clients := flags.Int("clients", 100, "clients, at least 1")
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
		used := ledger{used: make(map[string]int)}
		url, stop, err := start(&used)
		if err != nil {
			return err
		}
		l := load{clients: *clients, time: *took, gateway: url}
		passed, rejected, err := l.run(ctx)
		if err := errors.Join(err, stop()); err != nil {
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
// start starts the gateway in front of the model and returns its URL.
func start(used *ledger) (url string, stop func() error, err error) {
	limits, err := newLimits(1)
	if err != nil {
		return "", nil, err
	}
	keys := make(map[string]string, accounts)
	for i := range accounts {
		keys[apiKey(i)] = accountName(i)
	}
	backend := httptest.NewServer(http.HandlerFunc(model))
	g := &gateway{accounts: keys, model: backend.URL, client: http.DefaultClient, bill: used.add}
	server := httptest.NewServer(g.handler(limits.Limits))
	return server.URL, func() error {
		server.Close()
		backend.Close()
		return limits.close()
	}, nil
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
