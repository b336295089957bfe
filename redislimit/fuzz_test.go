package redislimit_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// FuzzDecidesAsCore plays random operations on a limiter of each kind and on one of core, which decide the same at the same instants.
func FuzzDecidesAsCore(f *testing.F) {
	kinds := []string{"bucket", "fixed", "calendar", "sliding", "concurrency"}
	for kind := range kinds {
		for seed := range 15 {
			f.Add(byte(kind), uint64(seed))
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, seed uint64) {
		bubble(t, func(t *testing.T, s *server) {
			w := twinsOf(t, kinds[int(kind)%len(kinds)], rand.New(rand.NewPCG(seed, 1)), s.shared("key"))
			for range 150 {
				w.step()
			}
			w.end()
		})
	})
}

// liar is a store whose replies are numbers of the fuzzer.
type liar struct{ numbers []int64 }

func (s *liar) Run(_ context.Context, _ *redislimit.Script, _ []string, args ...int64) ([]int64, error) {
	if len(s.numbers) == 0 {
		return nil, errGone
	}
	n := int(uint64(s.numbers[0]) % 30)
	reply := s.numbers[1:min(1+n, len(s.numbers))]
	s.numbers = s.numbers[1+len(reply):]
	return append([]int64(nil), reply...), nil
}

func (*liar) Subscribe(context.Context, string, func()) (func(), error) {
	return nil, errors.ErrUnsupported
}

// FuzzReply has a server reply as no script does. A decision is still a decision, and no lease reports an impossible number.
func FuzzReply(f *testing.F) {
	add := func(kind byte, replies ...[]int64) {
		var all []byte
		for _, r := range replies {
			all = binary.BigEndian.AppendUint64(all, uint64(len(r)))
			for _, n := range r {
				all = binary.BigEndian.AppendUint64(all, uint64(n))
			}
		}
		f.Add(kind, all)
	}
	add(0, []int64{0, 1000, 0, 1, 2, 5, 0}, []int64{0, 1000, 0, 0, 5, 2, 0})
	add(0, []int64{0, 1000, 0, 0, 0, 0, 0}, []int64{0, 1000, 0, 0, 1 << 53, 1 << 53, 1 << 53})
	add(0, []int64{0, -1 << 63, 0, 1, -1 << 63, -1 << 63, -1 << 63})
	add(1, []int64{0, 1000, 9, 1009, 7, 1, 9, 3, 1, 3, 9, 0})
	add(2, []int64{0, 1000, 7, 3, 9, 2, 1, 1, 1 << 52, 2, 0, 3, 9, 1 << 52})
	add(3, []int64{0, 1000, 0, 1, 1, 0, 77}, []int64{0, 1000, 0, 1, 1, 0, 78}, []int64{2})
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		s := &liar{}
		for ; len(data) >= 8; data = data[8:] {
			s.numbers = append(s.numbers, int64(binary.BigEndian.Uint64(data)))
		}
		synctest.Test(t, func(t *testing.T) { believes(t, int(kind)%4, s) })
	})
}

// believes uses a limiter of that kind on the store.
func believes(t *testing.T, kind int, s redislimit.Store) {
	t.Helper()
	const limit = 5
	o := redislimit.Options{Store: s, Key: "key", Prefetch: 3, TTL: time.Second}
	l := ofKind(t, []string{"bucket", "fixed", "sliding", "concurrency"}[kind], o, limit)
	for i := range 8 {
		n := i % 4
		lease := l.TryAcquire(n)
		if i%2 == 1 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
			lease, _ = l.Acquire(ctx, n)
			cancel()
		}
		require.Equal(t, lease.Err() == nil, lease.Acquired())
		if left, ok := core.Remaining.From(lease); ok {
			require.GreaterOrEqual(t, left, 0)
			require.LessOrEqual(t, left, limit)
		}
		for _, key := range []core.MetadataKey[time.Duration]{core.RetryAfter, core.ResetAfter} {
			if d, ok := key.From(lease); ok {
				require.GreaterOrEqual(t, d, time.Duration(0))
			}
		}
		left := l.Statistics().Available
		require.GreaterOrEqual(t, left, 0)
		require.LessOrEqual(t, left, limit)
		l.IdleFor()
		if i == 5 {
			lease.Refund()
		}
		lease.Release()
		time.Sleep(time.Duration(i) * 10 * time.Second)
	}
	require.NoError(t, l.Close())
}
