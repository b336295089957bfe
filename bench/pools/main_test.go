// Package pools compares worker pools: what it costs to have an empty task run.
package pools

import (
	"os"
	"testing"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

// No look for leaks here: ants keeps goroutines of its own from import on.
func TestMain(m *testing.M) {
	sidebyside.RunByDefault()
	os.Exit(m.Run())
}
