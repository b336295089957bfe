package machine

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Numbers come in any order and at any distance: none is taken for a new one twice, and those of
// the latest that fit are all known.
func TestReplayWindow(t *testing.T) {
	for seed := range uint64(90) {
		random := rand.New(rand.NewPCG(seed, 7))
		var r replayWindow
		came := make(map[uint64]bool)
		last, oldest := uint64(0), 1+uint64(random.IntN(1<<(3+seed%18)))
		for range 3000 {
			last += uint64(random.IntN(1 << (seed % 7)))
			number := last - min(last, random.Uint64N(oldest))
			first, known := r.first(number, last)
			require.LessOrEqual(t, len(r.blocks), maxBlocks)
			if known {
				require.Equal(t, !came[number], first, "%d of %d, seed %d", number, last, seed)
			} else {
				require.True(t, first)
				require.GreaterOrEqual(t, last-number, uint64(31*64), "%d of %d, seed %d", number, last, seed)
			}
			came[number] = true
		}
	}
}

// If no number is older than the latest by more than the most that is remembered, all are known as
// soon as one was as old as half of the others can be; and what came before that is, too.
func TestReplayWindowGrows(t *testing.T) {
	const n = 64 * (maxBlocks - 1)
	var r replayWindow
	for i := range uint64(2) { // the newest first
		first, known := r.first(n-1-i, n-1)
		require.True(t, first)
		require.True(t, known)
	}
	require.Len(t, r.blocks, minBlocks)
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n - 2) {
		first, known := r.first(uint64(i), n-1)
		require.True(t, first)
		require.True(t, known)
	}
	require.Len(t, r.blocks, maxBlocks)
	first, known := r.first(n+64, n+64)
	require.True(t, first)
	require.True(t, known)
	_, known = r.first(5, n+64) // it came, and was forgotten
	require.False(t, known)
	first, known = r.first(64, n+64)
	require.False(t, first)
	require.True(t, known)
}
