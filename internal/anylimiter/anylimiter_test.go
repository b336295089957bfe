package anylimiter_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/anylimiter"
)

var (
	errOwn   = errors.New("own")
	errOther = errors.New("other")
)

// lease is what a user's limiter grants or rejects.
type lease struct {
	err      error
	permits  int
	released *int
}

func (l lease) Acquired() bool { return l.err == nil }

func (l lease) Err() error { return l.err }

func (l lease) Release() { *l.released++ }

func granted() lease { return lease{permits: 3, released: new(int)} }

func failing(_ lease, err error) lease { return lease{err: err} }

// refunds is a limiter that counts refunds, settles one that also settles.
type refunds struct{ refunded int }

func (r *refunds) Refund(lease) { r.refunded++ }

type settles struct{ refunds }

func (*settles) Settle(l lease, n int) lease {
	l.permits = n
	return l
}

func TestRefundAndSettle(t *testing.T) {
	plain := granted()
	anylimiter.Refund(struct{}{}, plain)
	require.Equal(t, 1, *plain.released, "a limiter without Refund has its lease released")

	var r refunds
	l := granted()
	anylimiter.Refund(&r, l)
	require.Equal(t, 1, r.refunded)
	require.Zero(t, *l.released)

	require.Equal(t, l, anylimiter.Settle(&r, l, 2), "a limiter without Settle leaves the lease as it is")
	require.Equal(t, 1, r.refunded)
	anylimiter.Settle(&r, l, 0)
	require.Equal(t, 2, r.refunded)
	anylimiter.Settle(&r, lease{err: errOwn}, 0)
	require.Equal(t, 2, r.refunded, "there is nothing to refund")
	require.Equal(t, 2, anylimiter.Settle(new(settles), l, 2).permits)
}

func TestChecked(t *testing.T) {
	l := granted()
	got, err := anylimiter.Checked(struct{}{}, l, nil, failing)
	require.NoError(t, err)
	require.Equal(t, l, got)

	got, err = anylimiter.Checked(struct{}{}, lease{err: errOwn}, nil, failing)
	require.Equal(t, errOwn, err, "neither a lease nor an error")
	require.Equal(t, errOwn, got.err)

	var r refunds
	got, err = anylimiter.Checked(&r, l, errOwn, failing)
	require.Equal(t, errOwn, err)
	require.Equal(t, errOwn, got.err, "both a lease and an error")
	require.Equal(t, 1, r.refunded)

	rejection := lease{err: errOwn, permits: 3}
	got, err = anylimiter.Checked(&r, rejection, errOwn, failing)
	require.Equal(t, errOwn, err)
	require.Equal(t, rejection, got, "they agree")

	got, err = anylimiter.Checked(&r, rejection, errOther, failing)
	require.Equal(t, errOther, err)
	require.Equal(t, errOther, got.err, "they differ")
	require.Equal(t, 1, r.refunded)
}

func TestIsNil(t *testing.T) {
	for _, v := range []any{
		nil, (*int)(nil), error(nil), map[string]int(nil), (func())(nil), []int(nil), chan int(nil),
		interface{ Error() string }((*nilError)(nil)),
	} {
		require.True(t, anylimiter.IsNil(v), "%T", v)
	}
	for _, v := range []any{0, "", new(int), struct{}{}, map[string]int{}, []int{}, nilError{}} {
		require.False(t, anylimiter.IsNil(v), "%T", v)
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
	require.True(t, anylimiter.Same(a, a))
	require.False(t, anylimiter.Same(a, b))
	require.True(t, anylimiter.Same(errOwn, errOwn))
	require.True(t, anylimiter.Same(nilError{}, nilError{}))
	require.False(t, anylimiter.Same(nil, nil))
	require.False(t, anylimiter.Same(a, nil))
	require.False(t, anylimiter.Same(nil, a))
	require.False(t, anylimiter.Same(errOwn, a), "of different types")
	require.False(t, anylimiter.Same(&nilError{}, &nilError{}), "pointers to nothing may be equal")
	require.False(t, anylimiter.Same(list{errOwn}, list{errOwn}))
	require.False(t, anylimiter.Same(anything{list{}}, anything{list{}}))
}

type named struct{}

func (*named) String() string { return "a limiter" }

func TestDescribe(t *testing.T) {
	require.Equal(t, "a limiter", anylimiter.Describe(new(named)))
	require.Equal(t, "*anylimiter_test.refunds", anylimiter.Describe(new(refunds)))
}

func TestClosed(t *testing.T) {
	parent := errors.New("core: closed")
	own := anylimiter.Closed("channel", parent)
	require.EqualError(t, own, "channel: closed")
	require.ErrorIs(t, own, parent)
	require.NotErrorIs(t, own, errors.New("core: closed"))
	require.NotErrorIs(t, own, anylimiter.Closed("worker", parent))
}
