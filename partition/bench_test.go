package partition_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// BenchmarkRequest asks for a permit of one of 1,000 live keys.
func BenchmarkRequest(b *testing.B) {
	k := core.Must(partition.NewByKey(func(string) (core.Limiter, error) {
		return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1000})
	}))
	var keys [1000]string
	for i := range keys {
		keys[i] = strconv.Itoa(i)
		k.TryAcquire(keys[i], 1).Release()
	}
	chained := core.Must(partition.Chain[string](k, partition.Shared[string](core.Unlimited())))
	ctx := b.Context()
	for _, how := range []struct {
		name string
		ask  func(key string)
	}{
		{"try", func(key string) { k.TryAcquire(key, 1).Release() }},
		{"acquire", func(key string) {
			l, _ := k.Acquire(ctx, key, 1)
			l.Release()
		}},
		{"for", func(key string) { partition.For[string](k, key).TryAcquire(1).Release() }},
		{"chain", func(key string) { chained.TryAcquire(key, 1).Release() }},
	} {
		b.Run("how="+how.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				how.ask(keys[i%len(keys)])
			}
		})
	}
}

// BenchmarkWait lets one Acquire wait for another's permit.
func BenchmarkWait(b *testing.B) {
	k := core.Must(partition.NewByKey(func(string) (core.Limiter, error) {
		return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 10})
	}))
	ctx := b.Context()
	b.ReportAllocs()
	held := k.TryAcquire("a", 1)
	turns := make(chan struct{})
	done := make(chan core.Lease)
	go func() {
		for range turns {
			l, _ := k.Acquire(ctx, "a", 1)
			done <- l
		}
	}()
	for b.Loop() {
		turns <- struct{}{}
		for s, _ := k.Statistics("a"); s.Queued == 0; s, _ = k.Statistics("a") {
		}
		held.Release()
		held = <-done
	}
	close(turns)
}

// BenchmarkRefresh brings 100,000 keys to other limits: of the same kind, of another kind, and one more.
func BenchmarkRefresh(b *testing.B) {
	const keys = 100_000
	for _, c := range []struct{ name, a, b string }{
		{"same", "100/s burst 10", "200/s burst 20"},
		{"unchanged", "100/s burst 10", "100/s burst 10"},
		{"kind", "100/s", "fixed 100/s"},
		{"more", "100/s", "100/s, concurrency 5"},
	} {
		b.Run("to="+c.name, func(b *testing.B) {
			var now atomic.Pointer[spec.Limits]
			set := func(text string) {
				ls, err := spec.ParseLimits(text)
				require.NoError(b, err)
				now.Store(&ls)
			}
			set(c.a)
			k := core.Must(partition.New(partition.Options[int, int]{
				Key:    func(i int) int { return i },
				Update: func(_ int, l core.Limiter) (core.Limiter, error) { return now.Load().Apply(l, "plan") },
			}))
			for i := range keys {
				require.NoError(b, k.TryAcquire(i, 1).Err())
			}
			for i := 0; b.Loop(); i++ {
				set([]string{c.b, c.a}[i%2])
				require.NoError(b, k.Refresh())
			}
			require.Equal(b, keys, k.Len())
		})
	}
}
