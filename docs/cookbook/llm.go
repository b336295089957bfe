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

// NewLLM returns an LLM that has made no calls.
func NewLLM() (*LLM, error) {
	inAnyMinute := func(n int) core.SlidingWindowOptions {
		return core.SlidingWindowOptions{
			PermitLimit: n, QueueLimit: math.MaxInt, // all calls may wait
			Window: 61 * time.Second, SegmentsPerWindow: 61, // the limit holds over the window minus one segment
		}
	}
	requests, err1 := core.NewSlidingWindow(inAnyMinute(600))
	tokens, err2 := core.NewSlidingWindow(inAnyMinute(30_000))
	return &LLM{requests, tokens}, errors.Join(err1, err2)
}

// Call waits until both limits allow a call that costs at most maxTokens tokens. The call returns its
// actual cost.
func (l *LLM) Call(ctx context.Context, maxTokens int, call func(context.Context) (cost int, err error)) error {
	tokens, err := l.tokens.Acquire(ctx, maxTokens)
	if err != nil {
		return err
	}
	if _, err := l.requests.Acquire(ctx, 1); err != nil {
		tokens.Refund() // nothing was sent
		return err
	}
	cost, err := call(ctx)
	if err != nil {
		return err // the cost is unknown: it stays maxTokens
	}
	tokens.Settle(cost) // returns the difference, or charges it
	return nil
}
