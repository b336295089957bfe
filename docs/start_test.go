//go:build unix

package docs_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/docs"
)

// The page docs/start.md is followed to the letter: its files are written, its commands are run in
// one shell, and each prints what the page says. Ports are free ones, and the clone is a link to
// this repository.
func TestStart(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles three programs")
	}
	for _, program := range []string{"bash", "curl", "redis-server", "redis-cli"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("NOT TESTED: " + program + " is not installed")
		}
	}
	blocks, err := docs.Blocks("..", "docs/start.md")
	require.NoError(t, err)
	dir := t.TempDir()
	repository, err := filepath.Abs("..")
	require.NoError(t, err)
	api, redis := freePort(t), freePort(t)
	local := strings.NewReplacer(
		"127.0.0.1:9000", backend(t), "8080", api, "6379", redis,
	)

	var script strings.Builder
	script.WriteString("exec 2>&1\ntrap 'kill $(jobs -p); wait' EXIT\n")
	fmt.Fprintf(&script, "ln -s %s ../sluice\n", repository)
	var limit string
	var commands, answers []string
	for i, b := range blocks {
		switch {
		case b.Language == "spec":
			limit = strings.TrimSpace(b.Text)
		case b.Source != "":
			if filepath.Dir(b.Source) != "docs/start/redis" { // its constructor takes numbers
				require.Contains(t, b.Text, limit, b.Source)
			}
			file := filepath.Join(dir, strconv.Itoa(i))
			require.NoError(t, os.WriteFile(file, []byte(local.Replace(b.Text)), 0o600))
			fmt.Fprintf(&script, "cp %s %s\n", file, filepath.Base(b.Source))
		case b.Language == "console":
			for _, c := range console(b.Text) {
				commands, answers = append(commands, c.command), append(answers, c.answer)
				fmt.Fprintf(&script, "echo; echo %s\n%s\n%s\n", prompt, local.Replace(c.command), pause(c.command, api, redis))
			}
		}
	}
	require.NotEmpty(t, commands)

	out := runShell(t, dir, script.String())
	printed := strings.Split(out, "\n"+prompt+"\n")
	require.Len(t, printed, 1+len(commands), "%s", out)
	for i, command := range commands {
		require.Equal(t, counted(local.Replace(answers[i])), counted(strings.TrimSpace(printed[i+1])), "$ %s", command)
	}
}

// prompt stands before what a command prints.
const prompt = "=== next command"

type command struct{ command, answer string }

// console returns the commands of a block, with what they print. A line after "> " belongs to the
// command above.
func console(text string) []command {
	var all []command
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if c, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, command{command: c})
			continue
		}
		last := &all[len(all)-1]
		if c, ok := strings.CutPrefix(line, "> "); ok {
			last.command += "\n" + c
			continue
		}
		last.answer = strings.TrimSpace(last.answer + "\n" + line)
	}
	return all
}

// pause returns what a person would do before the next command: wait until a program that runs in
// the background listens, or has ended.
func pause(command, api, redis string) string {
	switch {
	case strings.HasPrefix(command, "kill "):
		return "wait " + strings.TrimPrefix(command, "kill ") + " 2>&-"
	case strings.HasSuffix(command, "&"):
		port := api
		if strings.HasPrefix(command, "redis-server") {
			port = redis
		}
		return "until (: </dev/tcp/127.0.0.1/" + port + ") 2>&-; do kill -0 $! || exit; sleep 0.05; done"
	}
	return ""
}

// runShell runs a script, and returns what it prints. Its home is a new directory; Go's caches stay.
func runShell(t *testing.T, dir, script string) string {
	t.Helper()
	env := os.Environ()
	for _, name := range []string{"GOENV", "GOCACHE", "GOMODCACHE", "GOPATH"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		require.NoError(t, err)
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	place := filepath.Join(dir, "first")
	require.NoError(t, os.Mkdir(place, 0o700))
	bash := exec.CommandContext(t.Context(), "bash", "-c", script)
	bash.Dir = place
	bash.Env = append(slices.Clip(env), "HOME="+dir, "GOFLAGS=-buildvcs=false", "GOWORK=off")
	out, err := bash.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

var count = regexp.MustCompile(`(?m)^ *\d+ (\d{3})$`)

// counted hides how many requests got each status: that depends on how fast curl is. What ended
// with a signal, and what the go command says of its own accord, is no answer.
func counted(text string) string {
	text = strings.ReplaceAll(text, "\r", "")
	return strings.TrimSpace(notes.ReplaceAllString(count.ReplaceAllString(text, "n $1"), ""))
}

var notes = regexp.MustCompile(`(?m)^(go: |\tgo mod tidy|bash: line \d+: ).*\n?`)

// backend starts the server before which the proxy stands, and returns its address.
func backend(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}
