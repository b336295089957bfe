// Package http compares middlewares that limit the requests of each client, and what a
// limited download costs.
package http

import (
	"testing"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

// The rivals start goroutines that nothing ends, so leaks are not looked for.
func TestMain(m *testing.M) {
	sidebyside.RunByDefault()
	m.Run()
}
