package rlslimit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A unit that only a newer library knows is an error of the request, and does not end the process.
func TestUnknownUnit(t *testing.T) {
	t.Parallel()
	for _, unit := range []timeUnit{0, 8, 99, -1} {
		_, err := units{1, unit, 1}.allowance()
		require.ErrorContains(t, err, "invalid rate limit unit")
	}
}
