package wait_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/wait"
)

func TestMark(t *testing.T) {
	outer := wait.NewMark(t.Context())
	inner := wait.NewMark(context.WithValue(outer, new(int), 1))
	beside := wait.NewMark(outer)
	ctx, cancel := context.WithCancel(inner)
	defer cancel()
	wait.Waits(t.Context())
	require.False(t, outer.Waited())
	wait.Waits(ctx)
	require.True(t, inner.Waited())
	require.True(t, outer.Waited(), "both wait")
	require.False(t, beside.Waited())
	for _, m := range []*wait.Mark{inner, outer, beside} {
		m.End()
	}
}
