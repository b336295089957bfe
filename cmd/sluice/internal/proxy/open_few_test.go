//go:build race || !(linux || darwin)

package proxy

import "testing"

// openable is how many connections a test may hold open. The race detector ends a program of more than 8,128 goroutines,
// and each request that waits has two here.
func openable(*testing.T) int { return 2000 }
