package limiter_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
)

// bare is a limiter without anything beyond the interface.
type bare struct{ core.Limiter }

func bucket(t *testing.T) *core.TokenBucket {
	t.Helper()
	l, err := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: 1, ManualReplenishment: true,
	})
	require.NoError(t, err)
	return l
}

func TestRefund(t *testing.T) {
	l := bucket(t)
	limiter.Refund(l, l.TryAcquire(2))
	require.Equal(t, 5, l.Available())

	released := 0
	limiter.Refund(bare{l}, core.Grant(1, func() { released++ }))
	require.Equal(t, 1, released)
}

func TestChecked(t *testing.T) {
	l := bucket(t)
	lease, err := limiter.Checked(l, l.TryAcquire(1), nil)
	require.NoError(t, err)
	require.True(t, lease.Acquired())

	// A limiter that lies: no lease, and no error.
	lease, err = limiter.Checked(l, core.Reject(), nil)
	require.ErrorIs(t, err, core.ErrRejected)
	require.False(t, lease.Acquired())

	// One that grants beside an error.
	odd := errors.New("odd")
	lease, err = limiter.Checked(l, l.TryAcquire(2), odd)
	require.Equal(t, odd, err)
	require.False(t, lease.Acquired())
	require.Equal(t, 4, l.Available())

	lease, err = limiter.Checked(l, core.Refuse(odd), odd)
	require.Equal(t, odd, err)
	require.False(t, lease.Acquired())
}

// listed is an error that looks comparable until it is compared.
type listed struct{ list any }

func (listed) Error() string { return "listed" }

func TestIs(t *testing.T) {
	odd, bad := errors.New("odd"), listed{[]int{1}}
	require.True(t, limiter.Is(errors.Join(bad, odd), odd))
	require.True(t, limiter.Is(listed{1}, listed{1}))
	require.False(t, limiter.Is(odd, listed{1}))
	require.False(t, limiter.Is(nil, odd))
	require.False(t, limiter.Is(bad, bad))
	require.False(t, limiter.Is(bad, listed{1}))
}
