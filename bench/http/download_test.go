package http

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// BenchmarkDownload is 16 MiB of a file over loopback, through a limit far above need, and
// through none.
func BenchmarkDownload(b *testing.B) {
	const size = 16 << 20
	file := filepath.Join(b.TempDir(), "file.bin")
	if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
		b.Fatal(err)
	}
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	run := func(wrap func(b *testing.B) http.Handler) func(b *testing.B) {
		return func(b *testing.B) {
			s := httptest.NewServer(wrap(b))
			defer s.Close()
			client := s.Client()
			b.SetBytes(size)
			for b.Loop() {
				response, err := client.Get(s.URL)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, response.Body)
				if err != nil || n != size {
					b.Fatal(n, err)
				}
				if err := response.Body.Close(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	sidebyside.Compare(
		b,
		sidebyside.Impl{Name: "sluice", Run: run(func(b *testing.B) http.Handler {
			l, err := core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: math.MaxInt, TokensPerPeriod: 1 << 40, ReplenishmentPeriod: time.Millisecond, QueueLimit: math.MaxInt,
			})
			if err != nil {
				b.Fatal(err)
			}
			limits, err := httplimit.New(httplimit.Options{Global: &httplimit.Policy{Download: partition.Shared[*http.Request](l)}})
			if err != nil {
				b.Fatal(err)
			}
			return limits.Handler(serve)
		})},
		sidebyside.Impl{Name: "none", Run: run(func(*testing.B) http.Handler { return serve })},
	)
}
