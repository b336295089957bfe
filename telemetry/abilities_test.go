package telemetry_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// spare is all that a limiter may be beside a core.Limiter; it notes what it is asked.
type spare struct{ asked map[string]int }

func (s spare) Statistics() core.Statistics {
	s.asked["statistics"]++
	return core.Statistics{Limit: 7}
}

func (s spare) IdleFor() (time.Duration, bool) {
	s.asked["idle"]++
	return 5, true
}

func (s spare) TryReplenish() bool {
	s.asked["replenish"]++
	return true
}

func (s spare) ReplenishmentPeriod() time.Duration { return 3 }

func (s spare) AutoReplenishing() bool { return true }

func (s spare) Close() error {
	s.asked["close"]++
	return io.ErrShortWrite
}

func (s spare) Refund(core.Lease) { s.asked["refund"]++ }

// only returns l as what it is by the bits, and nothing more: Reporter, Idler, Replenisher,
// Closer, Refunder.
func only(l core.Limiter, s spare, bits int) core.Limiter {
	return [...]core.Limiter{
		struct {
			core.Limiter
		}{l},
		struct {
			core.Limiter
			core.Reporter
		}{l, s},
		struct {
			core.Limiter
			core.Idler
		}{l, s},
		struct {
			core.Limiter
			core.Reporter
			core.Idler
		}{l, s, s},
		struct {
			core.Limiter
			core.Replenisher
		}{l, s},
		struct {
			core.Limiter
			core.Reporter
			core.Replenisher
		}{l, s, s},
		struct {
			core.Limiter
			core.Idler
			core.Replenisher
		}{l, s, s},
		struct {
			core.Limiter
			core.Reporter
			core.Idler
			core.Replenisher
		}{l, s, s, s},
		struct {
			core.Limiter
			io.Closer
		}{l, s},
		struct {
			core.Limiter
			core.Reporter
			io.Closer
		}{l, s, s},
		struct {
			core.Limiter
			core.Idler
			io.Closer
		}{l, s, s},
		struct {
			core.Limiter
			core.Reporter
			core.Idler
			io.Closer
		}{l, s, s, s},
		struct {
			core.Limiter
			core.Replenisher
			io.Closer
		}{l, s, s},
		struct {
			core.Limiter
			core.Reporter
			core.Replenisher
			io.Closer
		}{l, s, s, s},
		struct {
			core.Limiter
			core.Idler
			core.Replenisher
			io.Closer
		}{l, s, s, s},
		struct {
			core.Limiter
			core.Reporter
			core.Idler
			core.Replenisher
			io.Closer
		}{l, s, s, s, s},
		struct {
			core.Limiter
			core.Refunder
		}{l, s},
		struct {
			core.Limiter
			core.Reporter
			core.Refunder
		}{l, s, s},
		struct {
			core.Limiter
			core.Idler
			core.Refunder
		}{l, s, s},
		struct {
			core.Limiter
			core.Reporter
			core.Idler
			core.Refunder
		}{l, s, s, s},
		struct {
			core.Limiter
			core.Replenisher
			core.Refunder
		}{l, s, s},
		struct {
			core.Limiter
			core.Reporter
			core.Replenisher
			core.Refunder
		}{l, s, s, s},
		struct {
			core.Limiter
			core.Idler
			core.Replenisher
			core.Refunder
		}{l, s, s, s},
		struct {
			core.Limiter
			core.Reporter
			core.Idler
			core.Replenisher
			core.Refunder
		}{l, s, s, s, s},
		struct {
			core.Limiter
			io.Closer
			core.Refunder
		}{l, s, s},
		struct {
			core.Limiter
			core.Reporter
			io.Closer
			core.Refunder
		}{l, s, s, s},
		struct {
			core.Limiter
			core.Idler
			io.Closer
			core.Refunder
		}{l, s, s, s},
		struct {
			core.Limiter
			core.Reporter
			core.Idler
			io.Closer
			core.Refunder
		}{l, s, s, s, s},
		struct {
			core.Limiter
			core.Replenisher
			io.Closer
			core.Refunder
		}{l, s, s, s},
		struct {
			core.Limiter
			core.Reporter
			core.Replenisher
			io.Closer
			core.Refunder
		}{l, s, s, s, s},
		struct {
			core.Limiter
			core.Idler
			core.Replenisher
			io.Closer
			core.Refunder
		}{l, s, s, s, s},
		struct {
			core.Limiter
			core.Reporter
			core.Idler
			core.Replenisher
			io.Closer
			core.Refunder
		}{l, s, s, s, s, s},
	}[bits]
}

func TestAnInstrumentedLimiterIsWhatItsLimiterIs(t *testing.T) {
	for bits := range 32 {
		t.Run(fmt.Sprintf("%05b", bits), func(t *testing.T) {
			s := spare{make(map[string]int)}
			i := instrument(t, newSDK().Options, only(concurrency(t, 3, 0), s, bits))
			want := make(map[string]int)

			reporter, ok := i.(core.Reporter)
			require.Equal(t, bits&1 != 0, ok)
			if ok {
				require.Equal(t, core.Statistics{Limit: 7}, reporter.Statistics())
				want["statistics"]++
			}
			idler, ok := i.(core.Idler)
			require.Equal(t, bits&2 != 0, ok)
			if ok {
				d, idle := idler.IdleFor()
				require.True(t, idle)
				require.Equal(t, time.Duration(5), d)
				want["idle"]++
			}
			replenisher, ok := i.(core.Replenisher)
			require.Equal(t, bits&4 != 0, ok)
			if ok {
				require.True(t, replenisher.TryReplenish())
				require.Equal(t, time.Duration(3), replenisher.ReplenishmentPeriod())
				require.True(t, replenisher.AutoReplenishing())
				want["replenish"]++
			}
			closer, ok := i.(io.Closer)
			require.Equal(t, bits&8 != 0, ok)
			if ok {
				require.Equal(t, io.ErrShortWrite, closer.Close())
				want["close"]++
			}
			refunder, ok := i.(core.Refunder)
			require.Equal(t, bits&16 != 0, ok)
			lease := i.TryAcquire(2)
			require.Equal(t, 1, i.Available())
			if ok {
				refunder.Refund(lease)
				refunder.Refund(lease)
				want["refund"]++
			} else {
				lease.Release()
				lease.Release()
				require.Equal(t, 3, i.Available())
			}
			require.Equal(t, want, s.asked)
		})
	}
}
