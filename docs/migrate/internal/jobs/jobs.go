// Package jobs checks how a pool runs its jobs.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// FetchAll is a function under test. It fetches pages, 8 at a time, and cancels the other fetches at the
// first error.
type FetchAll func(ctx context.Context, urls []string, fetch func(context.Context, string) error) error

// URLs returns the addresses of n pages.
func URLs(n int) []string {
	urls := make([]string, n)
	for i := range urls {
		urls[i] = fmt.Sprintf("/%d", i)
	}
	return urls
}

// Check tests f in a synctest bubble.
func Check(t *testing.T, f FetchAll) {
	t.Helper()
	eightAtOnce(t, f)
	firstErrorCancels(t, f)
}

// eightAtOnce checks that of 20 fetches 8 run concurrently, and never more.
func eightAtOnce(t *testing.T, f FetchAll) {
	t.Helper()
	started, hold, done := make(chan struct{}, 20), make(chan struct{}), make(chan error)
	go func() {
		done <- f(t.Context(), URLs(20), func(context.Context, string) error {
			started <- struct{}{}
			<-hold
			return nil
		})
	}()
	for ended := range 20 {
		synctest.Wait()
		require.Len(t, started, min(8+ended, 20))
		hold <- struct{}{}
	}
	require.NoError(t, <-done)
}

// firstErrorCancels checks that the first error is returned and that the other fetches are canceled.
func firstErrorCancels(t *testing.T, f FetchAll) {
	t.Helper()
	gone := errors.New("gone")
	err := f(t.Context(), URLs(20), func(ctx context.Context, url string) error {
		if url == "/3" {
			return gone
		}
		<-ctx.Done()
		return ctx.Err()
	})
	require.Equal(t, gone, err)
}

// Sizes are the lengths of the addresses of 12 pages.
var Sizes = []int{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3}
