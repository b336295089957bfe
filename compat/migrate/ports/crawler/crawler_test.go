package crawler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/ports/crawler/after"
	"github.com/sluice-go/sluice/compat/migrate/ports/crawler/before"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// web is a web of three hosts. Its front page leads to 10 pages of each, which lead back and to each other.
type web struct {
	mu    sync.Mutex
	began time.Time
	asked map[string][]time.Duration // for each host, when
}

func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.asked[r.URL.Host] = append(w.asked[r.URL.Host], time.Since(w.began))
	w.mu.Unlock()
	if r.URL.Path == "/gone" {
		return nil, errors.New("gone")
	}
	links := []string{"http://a/", "http://b/1"}
	if r.URL.Path == "/" {
		for host := range strings.SplitSeq("a b c", " ") {
			for i := range 10 {
				links = append(links, fmt.Sprintf("http://%s/%d", host, i))
			}
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK,
		Request:    r,
		Body:       io.NopCloser(strings.NewReader(strings.Join(links, "\n"))),
	}, nil
}

type crawl func(ctx context.Context, start string, links func([]byte) []string) (int, error)

func both(t *testing.T, check func(t *testing.T, w *web, c crawl)) {
	t.Helper()
	t.Run("before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &web{began: time.Now(), asked: map[string][]time.Duration{}}
			check(t, w, before.New(w).Crawl)
		})
	})
	t.Run("after", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &web{began: time.Now(), asked: map[string][]time.Duration{}}
			c, err := after.New(w)
			require.NoError(t, err)
			check(t, w, c.Crawl)
		})
	})
}

func lines(page []byte) []string { return strings.Split(string(page), "\n") }

// Both fetch each page once, and a page of a host every half second.
func TestCrawl(t *testing.T) {
	both(t, func(t *testing.T, w *web, crawl crawl) {
		n, err := crawl(t.Context(), "http://a/", lines)
		require.NoError(t, err)
		require.Equal(t, 31, n)
		for host, want := range map[string]int{"a": 11, "b": 10, "c": 10} {
			at := w.asked[host]
			require.Len(t, at, want)
			slices.Sort(at)
			for i := 1; i < len(at); i++ {
				require.GreaterOrEqual(t, at[i]-at[i-1], 500*time.Millisecond, host)
			}
		}
	})
}

// The first error ends both.
func TestGone(t *testing.T) {
	both(t, func(t *testing.T, _ *web, crawl crawl) {
		_, err := crawl(t.Context(), "http://a/gone", lines)
		require.ErrorContains(t, err, "gone")
	})
}
