package invalid_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/invalid"
)

func TestFields(t *testing.T) {
	f := invalid.Fields{Prefix: "p: Options."}
	f.Join(nil)
	require.NoError(t, f.Err())
	other := errors.New("q: 5%")
	f.Add("A", -1, "at least 0")
	f.Join(other)
	f.Addf("%s is set, want %d%%", "B", 7)
	require.EqualError(t, f.Err(), "p: Options.A = -1, want at least 0\nq: 5%\np: Options.B is set, want 7%")
	require.ErrorIs(t, f.Err(), other)
}
