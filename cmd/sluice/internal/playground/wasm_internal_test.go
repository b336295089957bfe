package playground

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEngineIsBuiltFromItsSources: the WebAssembly file that is checked in is the one that make playground writes. Another
// version of Go writes another one; then that the file decides as the sources do is left to the tests of simulate.
func TestEngineIsBuiltFromItsSources(t *testing.T) {
	z, err := os.Open(filepath.Join("site", compressed))
	require.NoError(t, err)
	defer func() { _ = z.Close() }()
	r, err := gzip.NewReader(z)
	require.NoError(t, err)
	have, err := io.ReadAll(r)
	require.NoError(t, err)
	if !bytes.Contains(have, []byte(runtime.Version())) {
		t.Logf("%s is not the version of Go that wrote %s", runtime.Version(), compressed)
		return
	}
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	require.NoError(t, err)
	if !bytes.Contains(mod, []byte("replace github.com/sluice-go/sluice ")) {
		t.Logf("the file has the versions of modules in it, and %s is of before this release", compressed)
		return
	}
	file := filepath.Join(t.TempDir(), engine)
	c := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-buildvcs=false", "-o", file, "./wasm")
	// GOFLAGS that is empty would be what go env -w has set.
	c.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=off")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	want, err := os.ReadFile(file) //nolint:gosec // the test's
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, have), "the sources of the engine have changed: make playground")
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	loader, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	require.NoError(t, err)
	site, err := os.ReadFile(filepath.Join("site", "wasm_exec.js"))
	require.NoError(t, err)
	assert.Equal(t, string(loader), string(site), "wasm_exec.js is not the toolchain's: make playground")
}
