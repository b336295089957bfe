package cookbook

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
)

// An LLM calls a language model whose provider allows 600 requests and 30,000 tokens a minute.
type LLM struct {
	requests, tokens *core.TokenBucket
}

// NewLLM returns an LLM without calls.
func NewLLM() (*LLM, error) {
	requests, err1 := core.NewTokenBucket(core.Every(100*time.Millisecond, 10))
	tokens, err2 := core.NewTokenBucket(core.PerSecond(500, 8000)) // no call costs more than 8,000
	return &LLM{requests, tokens}, errors.Join(err1, err2)
}

// Call waits until both limits allow a call that may cost up to most tokens. The call returns how
// many it has cost.
func (l *LLM) Call(ctx context.Context, most int, call func(context.Context) (cost int, err error)) error {
	tokens, err := l.tokens.Acquire(ctx, most)
	if err != nil {
		return err
	}
	if _, err := l.requests.Acquire(ctx, 1); err != nil {
		l.tokens.Refund(tokens) // nothing was sent
		return err
	}
	cost, err := call(ctx)
	if err != nil {
		return err // the cost is unknown: it stays at most
	}
	l.tokens.Settle(tokens, cost) // gives back the rest, or takes what was missing
	return nil
}
