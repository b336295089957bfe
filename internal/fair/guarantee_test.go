package fair_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/testkit"
)

// tenant is a flow of a test that measures shares.
type tenant struct {
	fair.Flow

	granted, largest int
	waiting          int
}

func (k *tenant) weight() float64    { return float64(max(k.Weight, 1)) }
func (k *tenant) by() float64        { return float64(k.granted) / k.weight() }
func (k *tenant) largestBy() float64 { return float64(k.largest) / k.weight() }

// between is two tenants that both wait.
type between struct{ least, most float64 }

// However flows come and go, whoever leaves, and whatever requests are evicted: in any interval in which
// two flows of a priority both wait throughout, their grants by weight differ by no more than
// a largest request of each; nothing is lost; and no flow waits forever.
func TestGuarantee(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	ops := testkit.Rounds(1_000_000)
	var q fair.Queue[*tenant]
	tenants := make([]*tenant, 7)
	for i := range tenants {
		tenants[i] = &tenant{Flow: fair.Flow{Key: string(rune('a' + i)), Weight: []int{2, 5, 1, 7, 2, 5, 0}[i], Priority: i / 5}}
	}
	apart := map[[2]int]*between{}
	var items []*fair.Item[*tenant]
	drop := func(it *fair.Item[*tenant]) {
		it.Value.waiting--
		for i, other := range items {
			if other == it {
				items[i] = items[len(items)-1]
				items = items[:len(items)-1]
				return
			}
		}
		t.Fatal("served twice")
	}
	for op := range ops {
		busy := op/5000%2 == 0 // then all queue up, else the queue drains
		k := tenants[random.IntN(len(tenants))]
		switch dice := random.IntN(10); {
		case dice < 4 && (busy || dice < 2) && len(items) < 60:
			n := 1 + random.IntN(50)
			it := &fair.Item[*tenant]{N: n, Value: k}
			q.Push(it, k.Flow)
			items = append(items, it)
			k.waiting++
			k.largest = max(k.largest, n)
		case dice < 8:
			if it := q.Next(); it != nil {
				q.Take(it)
				it.Value.granted += it.N
				drop(it)
			}
		case dice < 9 && len(items) > 0:
			it := items[random.IntN(len(items))]
			q.Remove(it)
			drop(it)
		default:
			gone, ok := q.Evictions(k.Flow, 1, 1+random.IntN(20))
			for _, it := range gone {
				if ok {
					require.LessOrEqual(t, it.Value.Priority, k.Priority)
					q.Remove(it)
					drop(it)
				}
			}
		}
		require.Equal(t, len(items) == 0, q.Empty())
		for i, a := range tenants {
			if q.Empty() {
				a.largest = 0
			}
			for j, b := range tenants[:i] {
				pair := [2]int{i, j}
				if a.Priority != b.Priority || a.waiting == 0 || b.waiting == 0 {
					delete(apart, pair)
					continue
				}
				d := a.by() - b.by()
				was := apart[pair]
				if was == nil {
					was = &between{math.Inf(1), math.Inf(-1)}
					apart[pair] = was
				}
				was.least, was.most = min(was.least, d), max(was.most, d)
				require.LessOrEqual(t, was.most-was.least, a.largestBy()+b.largestBy()+1e-6)
			}
		}
	}
}

// Large sums lose nothing: after grants of 2^61 permits the order of single ones is fair. Weights that
// are powers of two have exact tags.
func TestLargeSums(t *testing.T) {
	const large = math.MaxInt/4 + 1 // 2^61, or 2^29 where integers have 32 bits
	var q fair.Queue[string]
	ask := func(n int, key string, weight int) {
		q.Push(&fair.Item[string]{N: n, Value: key}, fair.Flow{Key: key, Weight: weight})
	}
	next := func(n int) (served string) {
		for range n {
			it := q.Next()
			q.Take(it)
			served += it.Value //nolint:perfsprint // a few
		}
		return served
	}
	for range 3 {
		ask(large, "a", 1)
		ask(large, "b", 1)
	}
	for range 40 {
		ask(1, "a", 1)
		ask(1, "b", 1<<20)
		ask(1, "b", 1<<20)
	}
	require.Equal(t, "ababab", next(6))
	// a and b are at 3·large. While a gets 1 permit, b gets 2^20 of them.
	require.Equal(t, "abbbbbbb", next(8))
}

// A flow that does not wait is remembered until the virtual time has reached its tag, and no longer.
func TestMemory(t *testing.T) {
	var q fair.Queue[int]
	for i := range 1000 {
		q.Push(&fair.Item[int]{N: 1}, fair.Flow{Key: string(rune('a' + i))})
	}
	for range 1000 {
		q.Push(&fair.Item[int]{N: 1}, fair.Flow{Key: "stays"})
	}
	for range 1001 {
		q.Take(q.Next())
	}
	require.LessOrEqual(t, q.Remembered(), 1001)
	q.Take(q.Next())
	require.Equal(t, 1, q.Remembered())
	for !q.Empty() {
		q.Take(q.Next())
	}
	require.Equal(t, 0, q.Remembered())
}
