package meter_test

import (
	"testing"

	"github.com/sluice-go/sluice/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
