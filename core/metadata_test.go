package core_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func metadata(t *testing.T, l core.Lease) map[string]any {
	t.Helper()
	all := map[string]any{}
	for name, value := range l.Metadata() {
		require.NotContains(t, all, name, "each name once")
		require.NotNil(t, value)
		all[name] = value
	}
	return all
}

func TestKeys(t *testing.T) {
	for want, key := range map[string]interface{ Name() string }{
		"RETRY_AFTER": core.RetryAfter, "REASON_PHRASE": core.ReasonPhrase, "LIMITER_NAME": core.LimiterName,
		"PERMIT_LIMIT": core.PermitLimit, "REMAINING": core.Remaining, "RESET_AFTER": core.ResetAfter, "WINDOW": core.Window,
	} {
		require.Equal(t, want, key.Name())
	}
	shade := core.NewMetadataKey[string]("SHADE")
	l := core.Grant(1, nil, shade.With("green"))
	got, ok := shade.From(l)
	require.True(t, ok)
	require.Equal(t, "green", got)

	number, ok := core.NewMetadataKey[int]("SHADE").From(l)
	require.False(t, ok, "of another type")
	require.Zero(t, number)
	_, ok = core.NewMetadataKey[string]("shade").From(l)
	require.False(t, ok, "absent")
	_, ok = core.NewMetadataKey[any]("SHADE").From(l)
	require.True(t, ok, "any type will do")
	_, ok = core.RetryAfter.From(core.Lease{})
	require.False(t, ok)

	l = l.With(shade.With("blue"), shade.With("red"))
	require.Equal(t, map[string]any{"SHADE": "red"}, metadata(t, l))
}

func TestMetadataAddedByTheUser(t *testing.T) {
	l := concurrency(t, 5, 0)
	lease := takes(t, l, 3).With(core.Remaining.With(77), core.LimiterName.With("mine"))
	require.Equal(t, map[string]any{"PERMIT_LIMIT": 5, "REMAINING": 77, "LIMITER_NAME": "mine"}, metadata(t, lease))
	remaining, ok := core.Remaining.From(lease)
	require.True(t, ok)
	require.Equal(t, 77, remaining)

	for range lease.Metadata() {
		break // an early end is fine
	}
}
