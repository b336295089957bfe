// Package limiter compares limiters: what a grant, a refusal and a hand-over cost.
package limiter

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

func TestMain(m *testing.M) {
	sidebyside.RunByDefault()
	goleak.VerifyTestMain(m)
}
