package limits

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/partition"
)

// setOf returns the limits of a file with a policy by X-Key.
func setOf(t *testing.T, keys *Keys, before *Set, policy string) *Set {
	t.Helper()
	text := "listen: 127.0.0.1:0\nto: http://127.0.0.1:1\nroutes: {/: a}\npolicies: {a: {key: 'header:X-Key', " + policy + "}}\n"
	c, err := config.Parse("limits.yaml", []byte(text))
	require.NoError(t, err)
	s, err := New(c, nil, keys, before)
	require.NoError(t, err)
	s.Apply()
	return s
}

// TestOverrideGoes: a request whose override is removed between two looks at the file is not unlimited.
func TestOverrideGoes(t *testing.T) {
	keys := NewKeys(9, nil)
	first := setOf(t, keys, new(Set), "limit: fixed 2/1h, overrides: {acme: fixed 9/1h}")
	requests := first.Policies[0].requests
	slot := requests.slot(requests.terms.Load(), []string{"acme"}, "acme")
	setOf(t, keys, first, "limit: fixed 2/1h")
	assert.Equal(t, 2, partition.For(requests.limiters, slot).Available())
}

// TestStatisticsStay: a policy without a key keeps its counts however long no request comes.
func TestStatisticsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := config.Parse("limits.yaml", []byte("listen: 127.0.0.1:0\nto: http://127.0.0.1:1\nglobal: {limit: fixed 5/1h}\n"))
		require.NoError(t, err)
		s, err := New(c, nil, NewKeys(9, nil), new(Set))
		require.NoError(t, err)
		defer s.Close()
		for range 2 {
			require.True(t, s.Global.Requests().For(nil).TryAcquire(1).Acquired())
			time.Sleep(1000 * time.Hour)
		}
		for range 2 {
			assert.EqualValues(t, 2, *s.Global.States()[0].Granted, "to look at them counts nothing")
		}
	})
}
