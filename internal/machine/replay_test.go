package machine

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Numbers come in any order, at any distance, and again: none that came is taken for a new one, and
// only those of old grants are unknown.
func TestReplayWindow(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 7))
		var r replayWindow
		came := make(map[uint64]bool)
		var all []uint64
		last := uint64(0)
		for range 3000 {
			last += random.Uint64N(1 << (seed % 12))
			number := last - min(last, random.Uint64N(1<<random.IntN(4+int(seed%19))))
			if len(all) > 0 && random.IntN(2) == 0 {
				number = all[random.IntN(len(all))]
			}
			first, known := r.first(number, last)
			switch {
			case known && first == came[number], !known && !first:
				t.Fatalf("%d of %d, seed %d: first %v, known %v", number, last, seed, first, known)
			case !known && last-number < 31*64:
				t.Fatalf("%d of %d, seed %d: unknown", number, last, seed)
			}
			came[number] = true
			all = append(all, number)
		}
		require.LessOrEqual(t, len(r.blocks), maxBlocks)
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

// A number that is too old is not taken for the one whose place it would have, though nothing of its
// block was forgotten.
func TestReplayWindowTooOld(t *testing.T) {
	const n = 64 * maxBlocks
	var r replayWindow
	_, known := r.first(1, n)
	require.True(t, known)
	r.first(n+64*10, n+64*10)
	first, known := r.first(64*5, n+64*10)
	require.True(t, first)
	require.False(t, known)
	first, known = r.first(n+64*5, n+64*10)
	require.True(t, first)
	require.True(t, known)
}
