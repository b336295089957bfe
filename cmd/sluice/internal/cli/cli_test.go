package cli_test

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

func TestOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("of a file"), 0o600))
	for name, want := range map[string]string{"-": "of stdin", file: "of a file"} {
		r, err := cli.Open(name, strings.NewReader("of stdin"))
		require.NoError(t, err, name)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		assert.Equal(t, want, string(text))
	}
}

func TestLogger(t *testing.T) {
	for want, with := range map[string]func(*slog.Logger) *slog.Logger{
		"m":           func(l *slog.Logger) *slog.Logger { return l },
		"m: a=1":      func(l *slog.Logger) *slog.Logger { return l.With("a", 1) },
		"m: a=1 b=2":  func(l *slog.Logger) *slog.Logger { return l.With("a", 1).With("b", 2) },
		"m: g.time=1": func(l *slog.Logger) *slog.Logger { return l.WithGroup("g").With("time", 1) },
	} {
		var said []string
		l := with(cli.NewLogger(func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }))
		l.Debug("not printed")
		l.Info("m")
		assert.Equal(t, []string{want}, said)
	}
}

// TestShort: long values are replaced by a hash of a fixed length, each by its own.
func TestShort(t *testing.T) {
	long := strings.Repeat("x", 64)
	assert.Equal(t, long, cli.Short(long))
	assert.Len(t, cli.Short(long+"y"), 71)
	assert.NotEqual(t, cli.Short(long+"y"), cli.Short(long+"z"))
}

// TestDidYouMean: a name is proposed if its start is the same, or if it is one slip away.
func TestDidYouMean(t *testing.T) {
	known := []string{"--limit", "--limit-per-key", "--key", "--retries"}
	for unknown, want := range map[string]string{
		"lmit":   "; did you mean --limit?",
		"limti":  "; did you mean --limit?",
		"kye":    "; did you mean --key?",
		"keys":   "; did you mean --key?",
		"ke":     "",
		"retry":  "; did you mean --retries?",
		"rate":   "",
		"limitt": "; did you mean --limit or --limit-per-key?",
		"imit":   "; did you mean --limit?",
		"xyz":    "",
		"":       "",
	} {
		assert.Equal(t, want, cli.DidYouMean(unknown, known), unknown)
	}
}
