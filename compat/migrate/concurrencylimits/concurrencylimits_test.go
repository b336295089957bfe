package concurrencylimits_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/concurrencylimits/after"
	"github.com/sluice-go/sluice/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A failed call makes the limit smaller. A call beyond the limit is refused, and every permit comes back.
func TestCall(t *testing.T) {
	l, err := after.NewLimiter()
	require.NoError(t, err)
	require.Equal(t, 20, l.Limit())
	failed := errors.New("timeout")
	require.ErrorIs(t, after.Call(t.Context(), l, func(context.Context) error { return failed }), failed)
	limit := l.Limit()
	require.Less(t, limit, 20)

	held := l.TryAcquire(limit)
	require.True(t, held.Acquired())
	called := false
	err = after.Call(t.Context(), l, func(context.Context) error { called = true; return nil })
	require.ErrorIs(t, err, core.ErrRejected)
	require.False(t, called)
	l.Ignore(held)

	require.NoError(t, after.Call(t.Context(), l, func(context.Context) error { called = true; return nil }))
	require.True(t, called)
	require.Panics(t, func() { _ = after.Call(t.Context(), l, func(context.Context) error { panic("boom") }) })
	require.Equal(t, l.Limit(), l.Available())
}
