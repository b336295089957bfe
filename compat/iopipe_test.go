package compat_test

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// iopipeDifferences are the tests of io.Pipe that fail with ours, and why.
var iopipeDifferences = map[string]string{
	"TestPipeWriteClose":  buffers,
	"TestPipeWriteClose2": buffers,
	"TestPipeAllocations": "a pipe of ours has a buffer and limiters: making one takes more than one allocation",
}

const buffers = "a Write into the buffer succeeds, whether or not the Reader is closed later"

// The tests of io.Pipe pass with a pipe of ours, but for the differences above.
func TestIOPipe(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles and runs another test binary")
	}
	dir := newCopy(t)
	copySource(t, "testdata/iopipe", filepath.Join(dir, "iopipe"), strings.NewReplacer())
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "io", "pipe_test.go")
	copyFile(t, source, filepath.Join(dir, "iopipe", "pipe_test.go"), strings.NewReplacer(`. "io"`, `. "github.com/sluice-go/sluice/compat/iopipe"`).Replace)
	failed, passed, out := testCopy(t, dir, "./iopipe")
	assert.Equal(t, slices.Sorted(maps.Keys(iopipeDifferences)), failed, "%s", out)
	assert.Equal(t, 12, passed, "%s", out) // with two subtests
}
