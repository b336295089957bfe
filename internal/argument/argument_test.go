package argument_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/argument"
)

func TestIsNil(t *testing.T) {
	var ctx context.Context
	var stop context.CancelFunc
	var queue chan int
	for _, v := range []any{nil, ctx, stop, (*int)(nil), map[int]int(nil), []int(nil), queue} {
		require.True(t, argument.IsNil(v), "%T", v)
	}
	for _, v := range []any{0, "", struct{}{}, new(int), []int{}, t.Context(), func() {}} {
		require.False(t, argument.IsNil(v), "%T", v)
	}
}
