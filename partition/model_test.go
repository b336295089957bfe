package partition_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
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
	if returns(key) {
		return semaphore("", n%3+1)
	}
	return bucket(n%3+1, time.Duration(n)*time.Second)
}

// returns reports whether leases of the key's limiter return their permits.
func returns(key string) bool { return (key[len(key)-1]-48)%2 == 0 }

// FuzzAgainstMap plays operations on a Keyed, asked in several ways, and on a map of limiters that never drops.
// Both grant the same requests, and report the same times to retry and the same available permits.
func FuzzAgainstMap(f *testing.F) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		synctest.Test(t, func(t *testing.T) { playAgainstMap(t, ops) })
	})
}

// way is one way to ask a Keyed, and how the limiter of a key is asked in the same way.
type way struct {
	ours  partition.Limiter[string]
	model func(core.Limiter) core.Limiter
}

func (w way) limiter(key string) core.Limiter {
	if b, ok := w.ours.(bound); ok {
		return b.limiter(key)
	}
	return partition.For(w.ours, key)
}

// bound asks the limiters that For returns: each time another.
type bound struct{ of partition.Limiter[string] }

func (b bound) limiter(key string) core.Limiter { return partition.For(b.of, key) }

func (b bound) TryAcquire(key string, n int) core.Lease { return b.limiter(key).TryAcquire(n) }

func (b bound) Acquire(ctx context.Context, key string, n int) (core.Lease, error) {
	return b.limiter(key).Acquire(ctx, n)
}

// pair is one grant, as the Keyed and as the model gave it.
type pair struct {
	way
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
	all, allModel := semaphore("", 6), semaphore("", 6)
	chain := must(partition.Chain(k, partition.Shared[string](all)))
	alone := func(l core.Limiter) core.Limiter { return l }
	both := func(l core.Limiter) core.Limiter { return must(core.Chain(l, allModel)) }
	ways := []way{
		{k, alone},
		{partition.Translate[string](k, self), alone},
		{bound{k}, alone},
		{bound{&overriding{keyed: k}}, alone},
		{chain, both},
		{must(partition.Chain(chain, partition.Shared[string](core.Unlimited()))), both},
		{bound{chain}, both},
	}
	var held []pair
	for i := 0; i+1 < len(ops); i += 2 {
		key, n := strconv.Itoa(int(ops[i+1]%12)), int(ops[i]>>4%4)
		w := ways[int(ops[i+1]/12)%len(ways)]
		pick := func() (p pair) {
			j := int(ops[i+1]) % len(held)
			p, held = held[j], append(held[:j], held[j+1:]...)
			return p
		}
		switch op := ops[i] % 16; {
		case op < 8:
			by := w.model(m.limiter(key))
			p := pair{way: w, key: key, model: by.TryAcquire(n)}
			switch {
			case op < 4 || op < 6 && !p.model.Acquired():
				p.ours = w.ours.TryAcquire(key, n)
			case op < 6:
				p.ours = must(w.ours.Acquire(t.Context(), key, n))
			default:
				var ok bool
				if p.ours, ok = core.TryQuietly(w.limiter(key), n); !ok {
					p.ours = w.ours.TryAcquire(key, n)
				}
			}
			require.Equal(t, p.model.Acquired(), p.ours.Acquired(), "%d: key %s, %d permits", i, key, n)
			if want, got := p.model.Err(), p.ours.Err(); op < 6 && want != nil {
				require.EqualError(t, got, want.Error()) // with the time to retry
			}
			if p.ours.Permits() > 0 {
				held = append(held, p)
			}
		case op < 10 && len(held) > 0:
			p := pick()
			p.ours.Release()
			p.model.Release()
		case op < 11 && len(held) > 0:
			p := pick()
			p.ours.Refund()
			p.model.Refund()
			p.ours.Release() // it is spent
		case op < 12 && len(held) > 0:
			p := pick()
			if !returns(p.key) {
				n = min(n, p.model.Permits()) // a Keyed may have dropped what a later cost was for
			}
			spent := p.ours
			p.ours = p.ours.Settle(n)
			p.model = p.model.Settle(n)
			if returns(p.key) {
				require.Equal(t, p.model.Permits(), p.ours.Permits())
			}
			if n != spent.Permits() {
				spent.Release()
			}
			if p.model.Permits() > 0 {
				held = append(held, p)
			}
		case op < 13:
			if s, ok := k.Statistics(key); ok {
				require.Equal(t, m.limiter(key).Available(), s.Available)
				require.Equal(t, w.model(m.limiter(key)).Available(), w.limiter(key).Available())
			}
		case op < 14:
			k.Sweep()
		default:
			<-time.NewTimer(time.Duration(ops[i+1]) * 50 * time.Millisecond).C
		}
		require.Equal(t, allModel.Available(), all.Available(), "%d: key %s, %d permits", i, key, n)
	}
	for key, l := range k.All() {
		require.Equal(t, m.limiter(key).Available(), l.Available())
	}
}
