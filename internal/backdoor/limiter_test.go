package backdoor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// foreignLimiter returns a limiter with the methods of core.Limiter alone.
func foreignLimiter() core.Limiter { return struct{ core.Limiter }{core.Unlimited()} }

// userView is a view of another package's.
type userView struct{ core.Limiter }

func (v userView) Unwrap() core.Limiter { return v.Limiter }

func TestRoots(t *testing.T) {
	l, other := limiter(t, 1, 0), limiter(t, 1, 0)
	c, err := core.Chain(core.WithReason(l, "full"), core.Shadow(other))
	require.NoError(t, err)
	k, err := partition.New(partition.Options[int, int]{Key: func(i int) int { return i }, New: func(int) (core.Limiter, error) { return l, nil }})
	require.NoError(t, err)
	keyed := partition.For(k, 1)
	require.Equal(t, []core.Limiter{keyed}, ways.Roots(keyed, false), "no partition yet")
	keyed.TryAcquire(1).Release()
	both, err := partition.Chain(k, partition.Shared[int](other))
	require.NoError(t, err)
	f := foreignLimiter()
	require.Equal(t, []core.Limiter{f}, ways.Roots(f, false))
	require.Equal(t, []core.Limiter{l}, ways.Roots(l, false))
	require.Equal(t, []core.Limiter{l}, ways.Roots(userView{core.WithReason(userView{l}, "x")}, false))
	require.Equal(t, []core.Limiter{l, other}, ways.Roots(c, false))
	require.Equal(t, []core.Limiter{l}, ways.Roots(keyed, false))
	require.Equal(t, []core.Limiter{l, other}, ways.Roots(partition.For(both, 1), false))
	require.Equal(t, []core.Limiter{l, &embedding{l}}, ways.Roots(&embedding{l}, false))
}
