package worker_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testkit"
)

// Ending four times as many groups takes four times the work, not sixteen: a group that ends looks at its own tasks
// only. Work is counted in statements run, as time depends on the machine.
func TestWorkToEndGroupsIsLinear(t *testing.T) {
	if testing.Short() || testkit.Race {
		t.Skip("it builds the package again, and races are not looked for")
	}
	few, many := statementsRun(t, "GroupsThatEnd/groups=1000$"), statementsRun(t, "GroupsThatEnd/groups=4000$")
	t.Logf("1000 groups: %d statements, 4000 groups: %d", few, many)
	assert.Less(t, many, 5*few)
}

// statementsRun returns how many statements of worker, and of the queues it uses, one round of a benchmark runs.
func statementsRun(t *testing.T, benchmark string) (sum int) {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "profile")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-run", "^$", "-bench", benchmark, "-benchtime", "1x", "-cpu", "1",
		"-covermode", "count", "-coverpkg", ".,../internal/wait,../internal/fair", "-coverprofile", profile).CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(profile)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var block string
		var statements, runs int
		if n, _ := fmt.Sscan(line, &block, &statements, &runs); n == 3 {
			sum += statements * runs
		}
	}
	return sum
}
