package ending_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/ending"
)

// early is a context that has its Err before its channel is closed, as every one of package context has
// for a moment.
type early struct {
	context.Context

	done chan struct{}
	over atomic.Bool
}

func (e *early) Done() <-chan struct{} { return e.done }

func (e *early) Err() error {
	if e.over.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// Whoever looks in that moment ends the wait; the error is the caller's all the same.
func TestAWaitThatEndsBeforeTheCallersChannelIsClosedHasTheCallersError(t *testing.T) {
	var source ending.Source
	parent := &early{Context: t.Context(), done: make(chan struct{})}
	ctx := source.Begin(parent)
	defer ctx.Finish(false)
	done := ctx.Done()
	parent.over.Store(true)
	err := ctx.Err()
	<-done
	close(parent.done)
	require.Equal(t, context.DeadlineExceeded, ctx.Explain(err))
	require.Equal(t, errShut, ctx.Explain(errShut), "a limiter's own error")
}
