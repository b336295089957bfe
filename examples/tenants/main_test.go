package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// In virtual time: the others wait behind all of the flood in the order of arrival, and for one turn
// of all tenants by fair shares.
func TestTheOthersDoNotWaitForTheFlood(t *testing.T) {
	s := test{slots: 4, flood: 200, tenants: 4, work: 5 * time.Millisecond, every: 20 * time.Millisecond, time: 2 * time.Second}
	longest := func(order core.QueueOrder) (others time.Duration, greedy int) {
		synctest.Test(t, func(t *testing.T) {
			waits, err := s.run(t.Context(), order)
			require.NoError(t, err)
			for _, w := range waits[1:] {
				require.Greater(t, len(w), 80)
				others = max(others, quantile(w, 99))
			}
			greedy = len(waits[0])
		})
		return others, greedy
	}
	oldest, most := longest(core.OldestFirst)
	fair, served := longest(core.FairShare)
	require.Greater(t, oldest, 300*time.Millisecond)
	require.LessOrEqual(t, fair, 5*time.Millisecond)
	require.InDelta(t, most, served, 100, "the greedy tenant gets the slots that no other tenant uses")
}
