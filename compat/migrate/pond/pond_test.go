package pond_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/internal/jobs"
	"github.com/sluice-go/sluice/compat/migrate/pond/after"
	"github.com/sluice-go/sluice/compat/migrate/pond/before"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { jobs.Check(t, before.FetchAll) })
	sizes, err := before.Sizes(t.Context(), jobs.URLs(12), func(url string) (int, error) { return len(url), nil })
	require.NoError(t, err)
	require.Equal(t, jobs.Sizes, sizes)
}

func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { jobs.Check(t, after.FetchAll) })
	sizes, err := after.Sizes(t.Context(), jobs.URLs(12), func(_ context.Context, url string) (int, error) { return len(url), nil })
	require.NoError(t, err)
	require.Equal(t, jobs.Sizes, sizes)
}
