package machine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/machine"
)

// A bucket that is kept elsewhere is forecast as the machine plays it.
func TestKeptBucket(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		terms := machine.Terms{Limit: 1 + random.IntN(10), Span: 1 + random.Int64N(5)}
		terms.Step = 1 + random.IntN(terms.Limit)
		m := machine.New[int](new(machine.Bucket), &terms)
		taken := 1 + random.IntN(terms.Limit)
		full := m.Try(0, taken).FullAt
		kept := machine.KeptBucket{Missing: taken}
		require.Equal(t, full, kept.FullAt(&terms, 0))
		now, n := random.Int64N(20), 1+random.IntN(terms.Limit)
		m.Advance(now)
		require.Equal(t, m.Available(), kept.Available(&terms, now))
		if got := m.Try(now, n); got.Outcome == machine.Granted {
			require.Equal(t, now, kept.ReadyAt(&terms, now, n))
		} else {
			require.Equal(t, got.ReadyAt, kept.ReadyAt(&terms, now, n))
		}
	}
}
