// Package throttled compares the cost of a write that a rate limiter permits immediately.
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
