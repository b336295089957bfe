package ring_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/ring"
)

// FuzzRing compares a ring with a slice.
func FuzzRing(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 2, 1})
	f.Add([]byte{250, 250, 250, 250, 251, 251, 251, 1, 2})
	f.Fuzz(func(t *testing.T, operations []byte) {
		var r ring.Ring[int]
		var model []int
		next := 0
		push := func(n int) {
			for range n {
				r.Push(next)
				model = append(model, next)
				next++
			}
		}
		for _, op := range operations {
			switch {
			case op == 250:
				push(700) // more than a ring keeps
			case op == 251:
				for range min(len(model), 600) {
					require.Equal(t, model[0], r.Pop())
					model = model[1:]
				}
			case op%3 == 1 && len(model) > 0:
				require.Equal(t, model[0], r.Pop())
				model = model[1:]
			case op%3 == 2 && len(model) > 0:
				var e int
				r.PopBackTo(&e)
				require.Equal(t, model[len(model)-1], e)
				model = model[:len(model)-1]
			default:
				push(1)
			}
			require.Equal(t, len(model), r.Len())
		}
		for i, want := range model {
			require.Equal(t, want, *r.At(i))
		}
	})
}

// A large ring that has emptied keeps little memory, and none of it is the elements'.
func TestMemory(t *testing.T) {
	memory(t, ring.Ring[*[1024]byte]{}, func() *[1024]byte { return new([1024]byte) })
	memory(t, ring.ForLarge[[2]struct{ p *[1024]byte }](), func() (e [2]struct{ p *[1024]byte }) {
		e[1].p = new([1024]byte)
		return e
	})
}

func memory[E any](t *testing.T, r ring.Ring[E], create func() E) {
	t.Helper()
	before := heap()
	for range 100_000 {
		r.Push(create())
	}
	full := heap()
	for r.Len() > 0 {
		r.Pop()
	}
	require.Less(t, heap()-before, (full-before)/1000)
	runtime.KeepAlive(&r)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An empty ring keeps a bounded number of bytes, however large its elements are.
func TestMemoryOfLargeElements(t *testing.T) {
	before := heap()
	var r ring.Ring[[32 << 10]byte]
	var e [32 << 10]byte
	for range 1000 {
		r.PushFrom(&e)
	}
	for r.Len() > 0 {
		r.PopTo(&e)
	}
	require.Less(t, int(heap()-before), 400<<10)
	runtime.KeepAlive(&r)
}
