package throttle

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reads are the texts that a source returns, one for each Read. before is called before each.
type reads struct {
	texts  []string
	before func()
}

func (r *reads) Read(b []byte) (int, error) {
	if len(r.texts) == 0 {
		return 0, io.EOF
	}
	r.before()
	n := copy(b, r.texts[0])
	r.texts = r.texts[1:]
	return n, nil
}

// TestInterruptedLine: a copy that ends early has written all of the lines that it has counted.
func TestInterruptedLine(t *testing.T) {
	p, err := newPace(nil)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(name)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	line := strings.Repeat("x", bufferSize)
	n := 0
	src := &reads{[]string{line, "end\nnext\n"}, func() {
		n++
		if n == 2 {
			cancel()
		}
	}}
	j := &job{options: &options{end: '\n'}, pace: p, sink: &sink{f: f}}
	require.ErrorIs(t, j.copyLines(ctx, src), context.Canceled)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, line+"end\n", string(text))
	require.EqualValues(t, 1, j.passed.Load())
}
