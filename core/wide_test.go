package core_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// A lease of nothing that is settled up to more permits than the fields of a lease have room for
// gives all of them back.
func TestALeaseOfNothingIsSettledUpToVeryMany(t *testing.T) {
	const most = math.MaxInt
	l := concurrency(t, most, 0)
	for range 3 { // handles are used again
		lease := l.Settle(takes(t, l, 0), most-1)
		require.Equal(t, most-1, lease.Permits())
		available(t, l, 1)
		lease = l.Settle(lease, most-5)
		available(t, l, 5)
		lease.Release()
		lease.Release()
		available(t, l, most)
	}
}

// Plain permits that are taken under the mutex leave nothing behind for a later lease, however
// many they are.
func TestPlainPermitsOfAVeryHighLimit(t *testing.T) {
	if strconv.IntSize == 32 {
		t.Skip("limits are too low")
	}
	const most = math.MaxInt
	l := concurrency(t, most, 0)
	plain, ok := backdoor.Core[core.Lease]().Permits(l)
	require.True(t, ok)
	for range 3 {
		require.True(t, plain.TryTake(7))
		lease := takes(t, l, most-8)
		available(t, l, 1)
		limit, _ := core.PermitLimit.From(lease)
		require.Equal(t, most, limit)
		small := takes(t, l, 1)
		left, _ := core.Remaining.From(small)
		require.Zero(t, left)
		small.Release()
		lease.Release()
		plain.Give(7)
		available(t, l, most)
		require.True(t, plain.TryTake(most-3))
		small = takes(t, l, 2)
		available(t, l, 1)
		small.Release()
		plain.Give(most - 3)
		available(t, l, most)
	}
}
