//go:build unix

package cli_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

func TestStatusLine(t *testing.T) {
	screen, terminal, err := pty.Open()
	require.NoError(t, err)
	defer func() { _ = screen.Close() }()
	require.NoError(t, pty.Setsize(screen, &pty.Winsize{Rows: 24, Cols: 11}))
	l := cli.NewStatusLine(terminal)
	above := l.Above(terminal)
	write := func(text string) {
		n, err := above.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
	}
	l.Show("12345678901234")
	l.Show("short")
	write("a line\n")
	write("started, ")
	write("ended\nstarted ")
	l.Show("again")
	l.Clear()
	l.Clear()
	require.NoError(t, terminal.Close())
	var seen bytes.Buffer
	_, _ = seen.ReadFrom(screen) // ends with an error when the terminal is closed
	assert.Equal(t, strings.Join([]string{
		"\r1234567890",
		"\rshort     ",
		"\r     \ra line\r\n",
		"\rshort",
		"\r     \rstarted, ",
		"ended\r\nstarted ",
		"\r\n\ragain",
		"\r     \r",
	}, ""), seen.String())
}

// What is no terminal gets no line.
func TestNoStatusLine(t *testing.T) {
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	l := cli.NewStatusLine(f)
	require.Nil(t, l)
	l.Show("text")
	var out bytes.Buffer
	_, err = l.Above(&out).Write([]byte("text"))
	require.NoError(t, err)
	assert.Equal(t, "text", out.String())
}

func TestBar(t *testing.T) {
	assert.Equal(t, "[>----]", cli.Bar(7, 0))
	assert.Equal(t, "[==>--]", cli.Bar(7, 0.5))
	assert.Equal(t, "[====>]", cli.Bar(7, 2))
	assert.Empty(t, cli.Bar(3, 0.5))
}
