package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the table and the plot of docs/overload.md")

const (
	page = "../../docs/overload.md"
	svg  = "../../docs/overload.svg"
)

// direct asks the handler itself, without a network: so time is virtual.
func direct(h http.Handler) asker {
	return func(ctx context.Context) int {
		status := make(chan int, 1)
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
			status <- w.Code
		}()
		select {
		case s := <-status:
			return s
		case <-ctx.Done(): // the handler may go on
			return 0
		}
	}
}

// played returns what the limits do, in virtual time.
func played(t *testing.T) []result {
	t.Helper()
	setting := test{slots: 4, work: 20 * time.Millisecond, patience: 500 * time.Millisecond, settling: 2 * time.Second, time: 5 * time.Second}
	var results []result
	for _, c := range setting.contenders() {
		for _, load := range loads {
			synctest.Test(t, func(t *testing.T) {
				h, stop, err := setting.handler(c)
				require.NoError(t, err)
				r, err := setting.play(t.Context(), direct(h), c.name, load)
				require.NoError(t, err)
				stop()
				time.Sleep(setting.work) // what the backend still does
				results = append(results, r)
			})
		}
	}
	return results
}

// TestPage: the table and the plot of docs/overload.md are what the limits do, and the page's conclusions follow from them.
func TestPage(t *testing.T) {
	results := played(t)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, _ := strings.Cut(string(text), "| limit |")
	_, after, _ := strings.Cut(rest, "\n\n")
	want := before + table(results) + "\n" + after
	plot := draw(results)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		require.NoError(t, os.WriteFile(svg, []byte(plot), 0o644))
		text = []byte(want)
	}
	was, err := os.ReadFile(svg)
	require.NoError(t, err)
	require.Equal(t, plot, string(was), "run make plots")
	require.Equal(t, want, string(text), "run make plots")
	conclusions(t, results)
}

func table(results []result) string {
	var b strings.Builder
	b.WriteString("| limit | load | offered/s | in time/s | rejected/s | late/s | p50 ms | p99 ms |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range results {
		p50, p99 := fmt.Sprintf("%.0f", ms(r.p50)), fmt.Sprintf("%.0f", ms(r.p99))
		if r.good == 0 {
			p50, p99 = "", ""
		}
		fmt.Fprintf(&b, "| %s | %.1f | %.0f | %.0f | %.0f | %.0f | %s | %s |\n", r.limit, r.load, r.offered, r.good, r.rejected, r.late, p50, p99)
	}
	return b.String()
}

// conclusions are what the page says of the table.
func conclusions(t *testing.T, results []result) {
	t.Helper()
	of := func(limit string, load float64) result {
		for _, r := range results {
			if strings.HasPrefix(r.limit, limit) && r.load == load {
				return r
			}
		}
		require.Fail(t, "no such limit")
		return result{}
	}
	for _, load := range []float64{2, 5} {
		assert.Zero(t, of("none", load).good)
		assert.Less(t, of("oldest first, long", load).good, 2.0)
		half, newest, rate := of("oldest first, half", load), of("newest", load), of("rate", load)
		assert.InDelta(t, 200, half.good, 1)
		assert.Zero(t, half.late)
		assert.InDelta(t, 200, newest.good, 2)
		assert.Less(t, newest.p50, half.p50/5)
		assert.InDelta(t, 180, rate.good, 2)
		assert.Zero(t, rate.late)
	}
	for _, r := range results {
		if r.load == 0.5 {
			assert.InDelta(t, r.offered, r.good, 1.5, r.limit)
		}
	}
}
