package docs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	// What the programs import, so that the go tool runs this again when a package has changed.
	_ "github.com/sluice-go/sluice/adaptive"
	_ "github.com/sluice-go/sluice/channel"
	_ "github.com/sluice-go/sluice/core"
	_ "github.com/sluice-go/sluice/httplimit"
	_ "github.com/sluice-go/sluice/ioreader"
	_ "github.com/sluice-go/sluice/limitertest"
	_ "github.com/sluice-go/sluice/partition"
	_ "github.com/sluice-go/sluice/pipe"
	_ "github.com/sluice-go/sluice/resilience"
	_ "github.com/sluice-go/sluice/spec"
	_ "github.com/sluice-go/sluice/worker"
)

// before declares what the programs take as given.
const before = `
package blocks

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/limitertest"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/pipe"
	"github.com/sluice-go/sluice/resilience"
	"github.com/sluice-go/sluice/spec"
	"github.com/sluice-go/sluice/worker"
)

var (
	ctx                               context.Context
	limiter, hundred                  core.Limiter
	midnight                          time.Time
	request                           *http.Request
	users                             httplimit.Limiter
	userOf                            func(*http.Request) string
	mux                               *http.ServeMux
	api                               http.Handler
	addr                              string
	line                              []byte
	conn                              net.Conn
	file                              *os.File
	listener                          net.Listener
	dialer                            *net.Dialer
	transport                         *http.Transport
	urls                              []string
	fetch                             func(context.Context, string) (string, error)
	call                              func(context.Context) (string, error)
	newMine                           func() core.Limiter
)
`

// Every Go block of the README and of the tour compiles, except those of package redislimit, which is
// another module.
func TestProgramsCompile(t *testing.T) {
	for _, page := range []string{"README.md", tour} {
		t.Run(page, func(t *testing.T) { compiles(t, page) })
	}
}

// tour is the page whose blocks are not copies of files.
const tour = "docs/tour.md"

func compiles(t *testing.T, page string) {
	t.Helper()
	blocks := strings.Split(read(t, page), "\n```go\n")[1:]
	require.NotEmpty(t, blocks)
	var program strings.Builder
	program.WriteString(before)
	for _, b := range blocks {
		text, _, _ := strings.Cut(b, "\n```\n")
		switch {
		case strings.Contains(text, "redislimit."):
		case strings.HasPrefix(text, "func "):
			program.WriteString(text + "\n")
		default:
			program.WriteString("func _() error {\n" + text + "\nreturn nil\n}\n")
		}
	}

	for _, complaint := range compile(t, program.String()) {
		// A part of a program may leave variables for the rest of it, and a page need not use all packages.
		if !strings.HasPrefix(complaint, "#") && !strings.HasSuffix(complaint, "and not used") && !strings.Contains(complaint, "declared and not used") {
			t.Error(complaint)
		}
	}
}

// compile returns what the compiler says of a file, which it takes for one of this module.
func compile(t *testing.T, text string) []string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "blocks.go")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	place, err := filepath.Abs("blocks/blocks.go")
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {place: file}})
	require.NoError(t, err)
	named := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(named, overlay, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "-overlay="+named, "./blocks").CombinedOutput()
	if err == nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
