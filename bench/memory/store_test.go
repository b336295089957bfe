package memory

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

// keepStore measures the keys of one store, which is what that library has for limiters.
// The names of the keys are not counted.
func keepStore(b *testing.B, ctx context.Context) {
	b.Helper()
	n := sidebyside.Size(100_000)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	before := look()
	s, err := memorystore.New(&memorystore.Config{Tokens: 10, Interval: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	for _, key := range keys {
		if _, _, _, ok, err := s.Take(ctx, key); !ok || err != nil {
			b.Fatal("refused", err)
		}
	}
	report(b, before, look(), n, "limiter")
	_ = s.Close(ctx)
	runtime.KeepAlive(keys)
}
