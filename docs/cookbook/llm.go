package cookbook

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// An LLM calls a language model whose provider allows 600 requests and 30,000 tokens in any minute.
type LLM struct {
	requests, tokens *core.SlidingWindow
}

// NewLLM returns an LLM without calls.
func NewLLM() (*LLM, error) {
	inAnyMinute := func(n int) core.SlidingWindowOptions {
		return core.SlidingWindowOptions{
			PermitLimit: n, QueueLimit: math.MaxInt, // all calls may wait
			Window: 61 * time.Second, SegmentsPerWindow: 61, // a segment more, as permits come back at its beginning
		}
	}
	requests, err1 := core.NewSlidingWindow(inAnyMinute(600))
	tokens, err2 := core.NewSlidingWindow(inAnyMinute(30_000))
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
