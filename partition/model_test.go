package partition_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// model is a map of limiters that never drops.
type model map[string]core.Limiter

func (m model) limiter(key string) core.Limiter {
	l, ok := m[key]
	if !ok {
		l = modelLimiter(key)
		m[key] = l
	}
	return l
}

// modelLimiter is a limiter whose kind and limit depend on the key.
func modelLimiter(key string) core.Limiter {
	n, _ := strconv.Atoi(key)
	if n%2 == 0 {
		return semaphore("", n%3+1)
	}
	return bucket(n%3+1, time.Duration(n)*time.Second)
}

// FuzzAgainstMap plays operations on a Keyed and on a map of limiters that never drops. Both grant the
// same requests, and report the same times to retry and the same available permits.
func FuzzAgainstMap(f *testing.F) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		synctest.Test(t, func(t *testing.T) { playAgainstMap(t, ops) })
	})
}

// pair is one grant, as the Keyed and as the model gave it.
type pair struct {
	key         string
	ours, model core.Lease
}

func playAgainstMap(t *testing.T, ops []byte) {
	t.Helper()
	k := newKeyed(t, options{
		IdleTimeout: 3 * time.Second,
		New:         func(key string) (core.Limiter, error) { return modelLimiter(key), nil },
	})
	m := make(model)
	var held []pair
	for i := 0; i+1 < len(ops); i += 2 {
		key, n := strconv.Itoa(int(ops[i+1]%12)), int(ops[i]>>4%4)
		switch op := ops[i] % 16; {
		case op < 8:
			p := pair{key, k.TryAcquire(key, n), m.limiter(key).TryAcquire(n)}
			require.Equal(t, p.model.Acquired(), p.ours.Acquired(), "%d: key %s, %d permits", i, key, n)
			want, _ := core.RetryAfter.From(p.model)
			got, _ := core.RetryAfter.From(p.ours)
			require.Equal(t, want, got)
			if p.ours.Acquired() {
				held = append(held, p)
			}
		case op < 11 && len(held) > 0:
			j := int(ops[i+1]) % len(held)
			held[j].ours.Release()
			held[j].model.Release()
			held = append(held[:j], held[j+1:]...)
		case op < 12 && len(held) > 0:
			j := int(ops[i+1]) % len(held)
			k.Refund(held[j].key, held[j].ours)
			m.limiter(held[j].key).(core.Refunder).Refund(held[j].model)
			held = append(held[:j], held[j+1:]...)
		case op < 13:
			if s, ok := k.Statistics(key); ok {
				require.Equal(t, m.limiter(key).Available(), s.Available)
			}
		case op < 14:
			k.Sweep()
		default:
			<-time.NewTimer(time.Duration(ops[i+1]) * 50 * time.Millisecond).C
		}
	}
	for key, l := range k.All() {
		require.Equal(t, m.limiter(key).Available(), l.Available())
	}
}
