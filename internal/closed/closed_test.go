package closed_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/closed"
)

func TestError(t *testing.T) {
	parent := errors.New("closed")
	own := closed.Error("channel", parent)
	err := fmt.Errorf("wrapped: %w", own)
	require.EqualError(t, err, "wrapped: channel: closed")
	require.ErrorIs(t, err, own)
	require.ErrorIs(t, err, parent)
	require.NotErrorIs(t, err, closed.Error("worker", parent))
	require.NotErrorIs(t, parent, own)
}
