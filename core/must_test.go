package core_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// Must returns what was made, and panics with the error itself, so that it can be matched.
func TestMust(t *testing.T) {
	require.Equal(t, 7, core.Must(7, nil))
	err := errors.New("no limit")
	require.PanicsWithValue(t, err, func() { core.Must(7, err) })
	require.Panics(t, func() { core.Must(core.NewTokenBucket(core.TokenBucketOptions{})) })
}

func ExampleMust() {
	mail := core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 1000, Window: 24 * time.Hour}))
	fmt.Println(mail)
	// Output: fixed window of 24h0m0s: 1000 of 1000 available, 0 queued, 0 granted, 0 rejected
}
