package backdoor_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/partition"
)

var errOwn = errors.New("own")

// settler has only a Settle, refunder only a Refund.
type settler struct {
	core.Limiter
	settled []int
}

func (s *settler) Settle(l core.Lease, n int) core.Lease {
	s.settled = append(s.settled, n)
	return l
}

type refunder struct {
	core.Limiter
	refunded int
}

func (r *refunder) Refund(core.Lease) { r.refunded++ }

func TestRefundAndSettle(t *testing.T) {
	released := 0
	backdoor.Refund(foreignLimiter(), core.Grant(1, func() { released++ }))
	require.Equal(t, 1, released, "a limiter without Refund has its lease released")
	lease := core.Grant(3, func() { released++ })
	require.Equal(t, lease, backdoor.Settle(foreignLimiter(), lease, 2), "and leaves it as it is")
	backdoor.Settle(foreignLimiter(), lease, 0)
	require.Equal(t, 2, released)
	backdoor.Settle(foreignLimiter(), core.Fail(errOwn), 0)

	r := &refunder{Limiter: core.Unlimited()}
	lease = core.Grant(3, func() { released++ })
	backdoor.Refund(r, lease)
	require.Equal(t, lease, backdoor.Settle(r, lease, 2))
	backdoor.Settle(r, lease, 0)
	require.Equal(t, 2, r.refunded)
	backdoor.Settle(r, core.Fail(errOwn), 0)
	require.Equal(t, 2, r.refunded, "there is nothing to refund")

	s := &settler{Limiter: core.Unlimited()}
	backdoor.Refund(s, lease)
	backdoor.Settle(s, lease, 2)
	require.Equal(t, []int{0, 2}, s.settled)
	require.Equal(t, 2, released)
}

// foreignLimiter returns a limiter with the methods of core.Limiter alone.
func foreignLimiter() core.Limiter { return struct{ core.Limiter }{core.Unlimited()} }

func TestIsNil(t *testing.T) {
	for _, v := range []any{
		nil, (*int)(nil), error(nil), map[string]int(nil), (func())(nil), []int(nil), chan int(nil),
		interface{ Error() string }((*nilError)(nil)),
	} {
		require.True(t, backdoor.IsNil(v), "%T", v)
	}
	for _, v := range []any{0, "", new(int), struct{}{}, map[string]int{}, []int{}, nilError{}} {
		require.False(t, backdoor.IsNil(v), "%T", v)
	}
}

type nilError struct{}

func (nilError) Error() string { return "" }

// list is an error that cannot be compared, and anything may hold one.
type (
	list     []error
	anything struct{ any }
)

func (list) Error() string { return "list" }

func TestSame(t *testing.T) {
	a, b := new(int), new(int)
	require.True(t, backdoor.Same(a, a))
	require.False(t, backdoor.Same(a, b))
	require.True(t, backdoor.Same(errOwn, errOwn))
	require.True(t, backdoor.Same(nilError{}, nilError{}))
	require.False(t, backdoor.Same(nil, nil))
	require.False(t, backdoor.Same(a, nil))
	require.False(t, backdoor.Same(nil, a))
	require.False(t, backdoor.Same(errOwn, a), "of different types")
	require.False(t, backdoor.Same(&nilError{}, &nilError{}), "pointers to nothing may be equal")
	require.False(t, backdoor.Same(list{errOwn}, list{errOwn}))
	require.False(t, backdoor.Same(anything{list{}}, anything{list{}}))
}

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
	require.Equal(t, []any{keyed}, ways.Roots(keyed), "no partition yet")
	keyed.TryAcquire(1).Release()
	both, err := partition.Chain(k, partition.Shared[int](other))
	require.NoError(t, err)
	f := foreignLimiter()
	require.Equal(t, []any{f}, ways.Roots(f))
	require.Equal(t, []any{l}, ways.Roots(l))
	require.Equal(t, []any{l}, ways.Roots(userView{core.WithReason(userView{l}, "x")}))
	require.Equal(t, []any{l, other}, ways.Roots(c))
	require.Equal(t, []any{l}, ways.Roots(keyed))
	require.Equal(t, []any{l, other}, ways.Roots(partition.For(both, 1)))
	require.Equal(t, []any{l, &embedding{l}}, ways.Roots(&embedding{l}))
}
