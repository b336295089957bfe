//go:build race

package acquire_test

// raceDetector is on: sync.Pool then drops what it is given, at random, so that
// allocations can't be counted.
const raceDetector = true
