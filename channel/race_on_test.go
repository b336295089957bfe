//go:build race

package channel_test

// raceEnabled: sync.Pool drops at random under the race detector.
const raceEnabled = true
