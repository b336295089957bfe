package cli_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// TestReport: an error without a text is a status alone.
func TestReport(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		said   string
	}{
		{nil, 0, ""},
		{errors.New("broken"), 1, "sluice run: broken\n"},
		{cli.Usage("no %s", "rate"), 2, "sluice run: no rate; see sluice help run\n"},
		{cli.Exit(3, nil), 3, ""},
		{fmt.Errorf("late: %w", cli.Exit(75, errors.New("rejected"))), 75, "sluice run: rejected\n"},
	} {
		var said strings.Builder
		assert.Equal(t, test.status, cli.Report(&said, "run", test.err))
		assert.Equal(t, test.said, said.String())
	}
}

// TestPatient: a command that waits keeps an even pace, unless the limit has a burst, and a limit that grants nothing does not wait.
func TestPatient(t *testing.T) {
	for text, want := range map[string]string{
		"2/h":                   "2/h burst 1",
		"1000/s":                "1000/s burst 10",
		"1000/s burst 3":        "1000/s burst 3",
		"fixed 5/1m, unlimited": "fixed 5/min, unlimited",
		"blocked":               "blocked",
	} {
		limits, err := spec.ParseLimits(text)
		require.NoError(t, err)
		patient := cli.Patient(limits)
		for i := range patient {
			limited := patient[i].Kind != spec.Unlimited && patient[i].Kind != spec.Blocked
			assert.Equal(t, limited, patient[i].Queue == math.MaxInt, text)
			patient[i].Queue = 0
		}
		assert.Equal(t, want, patient.String())
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
		"ilmxx":  "",
		"xyz":    "",
		"":       "",
	} {
		assert.Equal(t, want, cli.DidYouMean(unknown, known), unknown)
	}
}

func TestParseDuration(t *testing.T) {
	for _, test := range []struct {
		text  string
		want  time.Duration
		wrong string
	}{
		{"1h30m", 90 * time.Minute, ""},
		{"1.5", 1500 * time.Millisecond, ""},
		{"0", 0, ""},
		{"-1ns", 0, `"-1ns" is negative`},
		{"-2", 0, `"-2" is negative`},
		{"soon", 0, `"soon" is not a duration such as 250ms, 1h30m, or a number of seconds`},
	} {
		d, err := cli.ParseDuration(test.text)
		assert.Equal(t, test.want, d, test.text)
		if test.wrong == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, test.wrong)
		}
	}
}

func TestIsLocalHost(t *testing.T) {
	for _, host := range []string{"localhost", "localhost:80", "LOCALHOST.", "127.0.0.1", "127.0.0.1:80", "192.0.2.1", "[::1]", "[::1]:80"} {
		assert.True(t, cli.IsLocalHost(host), host)
	}
	for _, host := range []string{"", "example.com", "localhost.example.com", "127.0.0.1.example.com", "::1", "a b", "localhost:x", "[::1"} {
		assert.False(t, cli.IsLocalHost(host), host)
	}
}
