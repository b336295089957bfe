//go:build !race

package acquire_test

const raceDetector = false
