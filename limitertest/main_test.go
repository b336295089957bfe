package limitertest_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The limiters that block for good do so in a bubble that is given up.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/sluice-go/sluice/limitertest_test.block"))
}
