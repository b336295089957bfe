//go:build race

package grpclimit_test

// race is true under the race detector, where memory and time are not those of other builds.
const race = true
