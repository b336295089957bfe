package core_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// A grant that holds nothing is settled to any number of permits, and stays Shadowed.
func TestSettleWhatShadowGranted(t *testing.T) {
	inner := concurrency(t, 1, 0)
	l := core.Shadow(inner)
	takes(t, inner, 1)
	lease := takes(t, l, 1)
	for _, n := range []int{7, math.MaxInt, 3, 0} {
		lease = l.(core.Settler).Settle(lease, n)
		require.True(t, lease.Acquired())
		require.Equal(t, n, lease.Permits())
		_, shadowed := core.Shadowed.From(lease)
		require.True(t, shadowed)
		available(t, inner, 0)
	}
}
