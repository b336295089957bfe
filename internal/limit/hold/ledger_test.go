package hold_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
)

func TestALedgerOfEqualEntries(t *testing.T) {
	l := hold.Fixed(3)
	l.Push(5, hold.Hold{})
	require.Equal(t, hold.Hold{Permits: 3}, l.PopOne())
	require.Equal(t, hold.Hold{Permits: 3}, l.PopBack())
	permits, leases := l.Pop(3, nil)
	require.Equal(t, 9, permits)
	require.Empty(t, leases)
}

func TestALedgerOfItems(t *testing.T) {
	var l hold.Ledger
	for i := range 4 {
		l.Push(1, hold.Hold{Permits: i})
	}
	require.Equal(t, 0, l.PopOne().Permits)
	require.Equal(t, 3, l.PopBack().Permits)
	permits, _ := l.Pop(2, nil)
	require.Equal(t, 3, permits)
}

// TestALedgerOfBytes returns a lease when all bytes that hold it together have left, and not before.
func TestALedgerOfBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l hold.Ledger
	var parts []int // the bytes of each lease, oldest first
	there, gone := 0, 0
	for range 10_000 {
		if n := 1 + r.IntN(10); r.IntN(2) == 0 {
			l.Push(n, hold.Hold{Lease: core.Grant(n, nil)})
			parts = append(parts, n)
			there += n
			continue
		}
		n := r.IntN(there + 1)
		there -= n
		gone += n
		permits, leases := l.Pop(n, nil)
		require.Zero(t, permits)
		for _, lease := range leases {
			require.Equal(t, parts[0], lease.Permits())
			require.GreaterOrEqual(t, gone, parts[0])
			gone -= parts[0]
			parts = parts[1:]
		}
		if len(parts) > 0 {
			require.Less(t, gone, parts[0])
		}
	}
}
