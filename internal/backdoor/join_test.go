package backdoor_test

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/testkit"
)

var shade = core.NewMetadataKey[string]("SHADE")

// join joins leases that were acquired.
func join(j backdoor.Joiner[core.Lease], permits int, leases ...core.Lease) core.Lease {
	parts := j.Begin()
	for _, l := range leases {
		parts.Add(l)
	}
	return parts.Join(permits)
}

// logged returns a lease whose release is written down.
func logged(log *[]string, name string) core.Lease {
	return core.Grant(1, func() { *log = append(*log, name) })
}

func TestJoinedLease(t *testing.T) {
	var log []string
	j := ways.NewJoiner(3)
	granted := func() core.Lease {
		log = nil
		return join(j, 5, logged(&log, "a"), logged(&log, "b"), logged(&log, "c"))
	}
	split := func(l core.Lease) backdoor.Parts[core.Lease] {
		parts, ok := j.Split(l)
		require.True(t, ok)
		return parts
	}
	ended := func(l core.Lease) {
		_, ok := j.Split(l)
		require.False(t, ok)
		before := len(log)
		l.Release()
		require.Len(t, log, before)
	}

	t.Run("releases its parts once, last first", func(t *testing.T) {
		l := granted()
		require.Equal(t, 5, l.Permits())
		l.With(shade.With("red")).Release()
		require.Equal(t, []string{"c", "b", "a"}, log)
		ended(l)
	})
	t.Run("split, releases nothing", func(t *testing.T) {
		l := granted()
		parts := split(l.With(shade.With("red")))
		ended(l)
		require.Empty(t, log)
		require.Len(t, parts.Leases(), 3)
		parts.Leases()[1].Release()
		require.Equal(t, []string{"b"}, log)
		parts.Drop()
	})
	t.Run("rejoined, has the metadata of the former", func(t *testing.T) {
		l := granted().With(shade.With("red"))
		more := split(l).Rejoin(l, 8)
		ended(l)
		require.Equal(t, 8, more.Permits())
		red, _ := shade.From(more)
		require.Equal(t, "red", red)
		more.Release()
		require.Equal(t, []string{"c", "b", "a"}, log)
		ended(more)
	})
	t.Run("rejoined to nothing", func(t *testing.T) {
		l := granted().With(shade.With("red"))
		none := split(l).Rejoin(l, 0)
		require.True(t, none.Acquired())
		require.Zero(t, none.Permits())
		red, _ := shade.From(none)
		require.Equal(t, "red", red)
		ended(none)
	})
	t.Run("of strangers", func(t *testing.T) {
		slots := limiter(t, 9, 0)
		chain, err := core.Chain(slots)
		require.NoError(t, err)
		for name, l := range map[string]core.Lease{
			"another joiner": join(ways.NewJoiner(1), 1, core.Grant(1, nil)),
			"core.Chain":     chain.TryAcquire(1),
			"limiter":        slots.TryAcquire(1),
			"Grant":          core.Grant(1, func() {}),
			"none":           {},
			"rejection":      core.Reject(),
		} {
			_, ok := j.Split(l)
			require.False(t, ok, name)
		}
		require.Equal(t, 7, slots.Available())
	})
}

// The metadata of a joined lease is the union, and a lease that has ended keeps it, whatever
// its ticket is used for.
func TestMetadataOfJoinedLeases(t *testing.T) {
	named := func(name string) *core.ConcurrencyLimiter {
		l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: name, PermitLimit: 5})
		require.NoError(t, err)
		return l
	}
	a, b, j := named("a"), named("b"), ways.NewJoiner(2)
	var ended []core.Lease
	for i := range 20 {
		first, other := a, b
		if i%2 == 1 {
			first, other = b, a
		}
		l := join(j, 1, core.Grant(1, nil, shade.With("red")), first.TryAcquire(1), other.TryAcquire(1))
		l.Release()
		ended = append(ended, l, join(j, 2, first.TryAcquire(2)))
		ended[len(ended)-1].Release()
	}
	for i, l := range ended {
		name, _ := core.LimiterName.From(l)
		require.Equal(t, []string{"a", "b"}[i/2%2], name)
		_, red := shade.From(l)
		require.Equal(t, i%2 == 0, red)
		left, _ := core.Remaining.From(l)
		require.Equal(t, 4-i%2, left)
	}
}

func TestJoinedLeaseWhosePartsPanic(t *testing.T) {
	var log []string
	j := ways.NewJoiner(4)
	angry := core.Grant(1, func() { panic("odd") })
	l := join(j, 1, logged(&log, "a"), angry, logged(&log, "b"), core.Grant(1, func() { panic("odd") }))
	require.PanicsWithValue(t, "odd", l.Release)
	require.Equal(t, []string{"b", "a"}, log)
	l.Release()
	require.Len(t, log, 2)
}

// A lease may be settled more often than a ticket can count.
func TestJoinedLeaseIsRejoinedAnyNumberOfTimes(t *testing.T) {
	released := 0
	j := ways.NewJoiner(1)
	l := join(j, 1, core.Grant(1, func() { released++ }))
	for i := range 1<<20 + 9 {
		parts, ok := j.Split(l)
		if !ok {
			t.Fatal("split", i)
		}
		l = parts.Rejoin(l, 1+i%2)
	}
	require.Zero(t, released)
	l.Release()
	l.Release()
	require.Equal(t, 1, released)
}

// Of all that split and release the copies of a lease one wins, and each part comes back
// once.
func TestStressJoinedLeases(t *testing.T) {
	workers, rounds := 4, 5000
	if testkit.Race {
		rounds = 1000
	}
	j := ways.NewJoiner(2)
	var wg sync.WaitGroup
	for w := range workers {
		slots := limiter(t, 9, 0)
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for range rounds {
				var released, won atomic.Int32
				l := join(j, 3, slots.TryAcquire(3), core.Grant(1, func() { released.Add(1) }))
				end := func(rejoin bool) {
					parts, ok := j.Split(l)
					if !ok {
						return
					}
					won.Add(1)
					if rejoin {
						l := parts.Rejoin(l, 5)
						runtime.Gosched()
						l.Release()
						return
					}
					for _, part := range parts.Leases() {
						part.Release()
					}
					parts.Drop()
				}
				var race sync.WaitGroup
				for range 2 {
					race.Go(l.Release)
					rejoin := r.IntN(2) == 0
					race.Go(func() { end(rejoin) })
				}
				race.Wait()
				if n := released.Load(); n != 1 || won.Load() > 1 || slots.Available() != 9 {
					t.Errorf("released %d times, split %d times, %d available", n, won.Load(), slots.Available())
				}
			}
		})
	}
	wg.Wait()
}

func TestJoinAllocates(t *testing.T) {
	if testkit.Race {
		t.Skip("sync.Pool drops at random")
	}
	var named []*core.ConcurrencyLimiter
	for i := range 9 {
		l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: strconv.Itoa(i), PermitLimit: 99})
		require.NoError(t, err)
		named = append(named, l)
	}
	j := ways.NewJoiner(2)
	turn := func(i int) {
		l := join(j, 1, named[i].TryAcquire(1), named[8].TryAcquire(1))
		parts, _ := j.Split(l)
		l = parts.Rejoin(l, 2)
		l.Release()
	}
	stable := func() { turn(0) }
	require.Zero(t, testing.AllocsPerRun(1000, stable), "one name")
	i := 0
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { turn(i % 8); i++ }), 1.0, "many names")
	require.Zero(t, testing.AllocsPerRun(1000, stable), "one name again")
	held := make([]core.Lease, 50)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		for i := range held {
			held[i] = join(j, 1, named[i%8].TryAcquire(1), named[8].TryAcquire(1))
		}
		core.ReleaseAll(held)
	}), float64(len(held)), "many names at once")
}
