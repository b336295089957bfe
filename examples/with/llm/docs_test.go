package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The Go blocks of docs/settle.md compile.
func TestDocsCompile(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/settle.md")
	require.NoError(t, err)
	blocks := strings.Split(string(docs), "\n```go\n")[1:]
	require.NotEmpty(t, blocks)
	var program strings.Builder
	program.WriteString(`package blocks

import (
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)
`)
	for _, b := range blocks {
		text, _, _ := strings.Cut(b, "\n```\n")
		program.WriteString("\n" + text + "\n")
	}
	folder := t.TempDir()
	file, named := filepath.Join(folder, "blocks.go"), filepath.Join(folder, "overlay.json")
	require.NoError(t, os.WriteFile(file, []byte(program.String()), 0o600))
	place, err := filepath.Abs("blocks/blocks.go") // the go tool takes the file for one of this module
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {place: file}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(named, overlay, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay="+named, "./blocks").CombinedOutput()
	require.NoError(t, err, "%s", out)
}
