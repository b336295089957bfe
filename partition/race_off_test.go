//go:build !race

package partition_test

const raceDetector = false
