// Package jobs watches how a pool runs its jobs.
package jobs

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// FetchAll is what is watched: a function that fetches pages, 8 at once, and cancels the other fetches
// at the first error.
type FetchAll func(ctx context.Context, urls []string, fetch func(context.Context, string) error) error

// URLs are n pages.
func URLs(n int) []string {
	urls := make([]string, n)
	for i := range urls {
		urls[i] = fmt.Sprintf("/%d", i)
	}
	return urls
}

// Check watches f, in a synctest bubble.
func Check(t *testing.T, f FetchAll) {
	t.Helper()
	eightAtOnce(t, f)
	firstErrorCancels(t, f)
}

// eightAtOnce finds that 20 pages that take a second each take three seconds, 8 at once.
func eightAtOnce(t *testing.T, f FetchAll) {
	t.Helper()
	began := time.Now()
	running, done := make(chan struct{}, 20), make(chan string, 20)
	most := 0
	go func() {
		for time.Since(began) < 3*time.Second {
			<-time.NewTimer(100 * time.Millisecond).C
			most = max(most, len(running))
		}
	}()
	err := f(t.Context(), URLs(20), func(_ context.Context, url string) error {
		running <- struct{}{}
		<-time.NewTimer(time.Second).C
		<-running
		done <- url
		return nil
	})
	require.NoError(t, err)
	require.Len(t, done, 20)
	require.Equal(t, 3*time.Second, time.Since(began))
	<-time.NewTimer(time.Second).C
	synctest.Wait()
	require.Equal(t, 8, most)
}

// firstErrorCancels finds that the first error is returned and that the other fetches are cancelled.
func firstErrorCancels(t *testing.T, f FetchAll) {
	t.Helper()
	began := time.Now()
	err := f(t.Context(), URLs(20), func(ctx context.Context, url string) error {
		if url == "/3" {
			<-time.NewTimer(time.Second).C
			return fmt.Errorf("%s: gone", url)
		}
		<-ctx.Done()
		return ctx.Err()
	})
	require.EqualError(t, err, "/3: gone")
	require.Equal(t, time.Second, time.Since(began))
}

// Sizes are the lengths of the names of 12 pages.
var Sizes = []int{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3}
