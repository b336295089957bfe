// Package throttled compares what a write costs that a rate limiter lets pass at once.
package throttled

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

func TestMain(m *testing.M) {
	sidebyside.RunByDefault()
	goleak.VerifyTestMain(m)
}
