//go:build !race && (linux || darwin)

package proxy

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// openable is how many connections a test may hold open, both ends of each in this process: 10,000 at most, and what the
// limit on open files leaves, as ulimit -n tells. Go itself has raised the soft limit to the hard one.
func openable(t *testing.T) int {
	t.Helper()
	var files syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	const others = 200
	require.Greater(t, files.Cur, uint64(2*others), "too few open files are allowed")
	return int(min(files.Cur-others, 2*10_000) / 2) //nolint:gosec // at most 10,000
}
