// Package channels compares ways to pass items from senders to receivers, within a bound.
package channels

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

func TestMain(m *testing.M) {
	sidebyside.RunByDefault()
	goleak.VerifyTestMain(m)
}
