package keyed_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/keyed"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLive: the limiter of a key decides, or that of its group if there is no room. To look creates neither.
func TestLive(t *testing.T) {
	made := make(map[string]core.Limiter)
	limiters := core.Must(partition.New(partition.Options[string, string]{
		Key: func(key string) string { return key },
		New: func(key string) (core.Limiter, error) {
			made[key] = core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 9}))
			return made[key], nil
		},
		Group:         func(string) string { return "group" },
		MaxPartitions: 1,
	}))
	assert.Nil(t, keyed.Live(limiters, "a"))
	assert.Empty(t, made)
	held := limiters.TryAcquire("a", 1)
	require.True(t, held.Acquired())
	assert.Same(t, made["a"], keyed.Live(limiters, "a"))
	assert.Nil(t, keyed.Live(limiters, "b"))
	require.True(t, limiters.TryAcquire("b", 1).Acquired())
	assert.Same(t, made["group"], keyed.Live(limiters, "b"))
	assert.Len(t, made, 2)
}

// TestGroup: groups have numbers from 1 on, and a crowd of keys is in all of them.
func TestGroup(t *testing.T) {
	seen := make(map[int]bool)
	for i := range 20_000 {
		seen[keyed.Group(strconv.Itoa(i))] = true
	}
	assert.Len(t, seen, 1024)
	assert.True(t, seen[1])
	assert.True(t, seen[1024])
}

func TestApplyAndReset(t *testing.T) {
	o := core.PerSecond(1, 5)
	l := core.Must(core.NewTokenBucket(o))
	require.True(t, l.TryAcquire(5).Acquired())
	o.TokenLimit = 7
	require.NoError(t, keyed.Apply(l, o))
	assert.Equal(t, 7, l.Options().TokenLimit)
	done, err := keyed.Reset(l)
	require.NoError(t, err)
	assert.True(t, done)
	assert.Equal(t, 7, l.Available())
	done, err = keyed.Reset(core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1})))
	require.NoError(t, err)
	assert.False(t, done, "its permits stay held")
}
