//go:build race

package telemetry_test

// raceDetector is on: sync.Pool then drops what it is given, at random, so that
// allocations cannot be counted.
const raceDetector = true
