package limits

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// TestOverrideGoes: a request whose override is removed between two looks at the file is not unlimited.
func TestOverrideGoes(t *testing.T) {
	keys := NewKeys(9, nil)
	set := func(before *Set, overrides string) *Set {
		c, err := config.Parse("limits.yaml", []byte(`
listen: 127.0.0.1:0
to: http://127.0.0.1:1
policies: {a: {key: "header:X-Key", limit: fixed 2/1h`+overrides+`}}
routes: {/: a}
`))
		require.NoError(t, err)
		s, err := New(c, nil, keys, before)
		require.NoError(t, err)
		s.Apply()
		return s
	}
	first := set(new(Set), ", overrides: {acme: fixed 9/1h}")
	slot := first.Policies[0].requests.slot([]string{"acme"})
	set(first, "")
	assert.False(t, slot.isUnlimited())
	assert.Equal(t, 2, newLive(slot).Available())
}
