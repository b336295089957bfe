//go:build unix

package playground

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/playground/play"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
)

// TestWhatIsCopied: with every key, the Go code compiles, the YAML is a configuration of the proxy, and the command runs.
func TestWhatIsCopied(t *testing.T) {
	dir := t.TempDir()
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	overlay := make(map[string]string) // puts the code into the module, where it finds the library
	for i, key := range []string{"", "ip", "client", "user", "host", "method", "path", "agent", "referer", "key"} {
		in := play.Input{Limits: []string{"50/s burst 20 queue 30"}, Key: key, Arrivals: "poisson:90/s,2s,3", Seed: 2}
		out, err := new(play.Page).Play(t.Context(), in)
		require.NoError(t, err)
		require.Empty(t, out.Error)
		r := out.Results[0]
		file := filepath.Join(dir, strconv.Itoa(i))
		code := strings.Replace(r.Go, "func newLimiter", "func newLimiter"+strconv.Itoa(i), 1) // all are in one package
		require.NoError(t, os.WriteFile(file, []byte("package limits\n\n"+code), 0o600))
		overlay[filepath.Join(here, "copied", strconv.Itoa(i)+".go")] = file
		if key != "method" {
			c, err := config.Parse("limits.yaml", []byte(r.YAML))
			if assert.NoError(t, err, key) {
				assert.Equal(t, in.Limits[0], c.Policies[0].Limits[0].String())
			}
		}
		if key != "user" && key != "host" && key != "agent" && key != "referer" && key != "key" {
			assert.NoError(t, runCommand(t, r.Command), r.Command)
		}
	}
	replace, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, replace, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", file, filepath.Join(here, "copied")).CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

// runCommand runs a line of a shell, sluice simulate.
func runCommand(t *testing.T, line string) error {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+line[len("sluice simulate"):]).Output()
	require.NoError(t, err)
	var args []string
	for arg := range strings.Lines(string(out)) {
		args = append(args, strings.TrimSuffix(arg, "\n"))
	}
	c := simulate.New()
	c.SetArgs(append(args, "--html", filepath.Join(t.TempDir(), "page.html")))
	return c.ExecuteContext(t.Context())
}
