package ending_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/internal/ending"
	"github.com/sluice-go/sluice/internal/linked"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatIsAskedOfAContext(t *testing.T) {
	for name, c := range map[string]struct {
		ask             func(ctx context.Context)
		waited, watched bool
	}{
		"nothing":     {func(ctx context.Context) { _ = ctx.Err() }, false, false},
		"Done":        {func(ctx context.Context) { ctx.Done() }, true, false},
		"Watch":       {func(ctx context.Context) { ending.Watch(ctx) }, false, true},
		"both":        {func(ctx context.Context) { ending.Watch(ctx); ctx.Done() }, true, true},
		"of a view":   {func(ctx context.Context) { ending.Watch(ending.Observe(ctx)) }, false, true}, //nolint:contextcheck // it is ctx
		"of a parent": {func(ctx context.Context) { _, cancel := context.WithCancel(ctx); cancel() }, true, false},
		"of a quiet parent": {func(ctx context.Context) {
			_, cancel := context.WithCancel(ending.Quiet(ctx))
			cancel()
		}, false, false},
		"of a call": {func(ctx context.Context) {
			call := new(linked.Source).Begin(ctx)
			call.End()
		}, false, false},
		"of a call that waits": {func(ctx context.Context) {
			call := new(linked.Source).Begin(ctx)
			call.Done()
			call.End()
		}, true, false},
		"of a call that watches": {func(ctx context.Context) {
			call := new(linked.Source).Begin(ctx)
			ending.Watch(call) //nolint:contextcheck // it is made of ctx
			call.End()
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			parent, cancel := context.WithCancel(t.Context())
			ctx := ending.Observe(parent)
			c.ask(ctx)
			require.Equal(t, c.waited, ctx.Waited())
			require.Equal(t, c.watched, ctx.Watched())
			require.Equal(t, parent.Done(), ending.Watch(ctx))
			cancel()
			require.Equal(t, context.Canceled, ctx.Err())
		})
	}
}

// A context that is derived from an observed one needs no goroutine: goleak would find it.
func TestAnObservedContextEndsWhatIsDerivedFromIt(t *testing.T) {
	parent, cancel := context.WithCancelCause(t.Context())
	derived, end := context.WithCancel(ending.Quiet(ending.Observe(parent)))
	defer end()
	cancel(context.DeadlineExceeded)
	require.Equal(t, context.Canceled, derived.Err())
	require.Equal(t, context.DeadlineExceeded, context.Cause(derived))
}
