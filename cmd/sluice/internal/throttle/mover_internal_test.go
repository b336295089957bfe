package throttle

import (
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// full is an output with room for so many bytes.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	n := min(f.room, len(p))
	f.room -= n
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// Of lines that could not be written none is counted, nor one of which a part was.
func TestLinesThatAreWritten(t *testing.T) {
	for _, test := range []struct {
		text        string
		room        int
		lines, want int
	}{
		{"a\nb\nc\n", 5, 2, 5},
		{"a\nb\nc\n", 4, 2, 4},
		{"a\nb\nc\n", 0, 0, 0},
		{"a\nb\nc\n", 6, 3, 6},
		{"abc", 2, 0, 2},
		{"abc", 3, 1, 3},
	} {
		m := newByLine(&full{test.room}, strings.NewReader(test.text), '\n')
		n, err := m.ready()
		require.NoError(t, err)
		lines, written, err := m.move(n)
		if test.room < len(test.text) {
			require.ErrorIs(t, err, syscall.ENOSPC)
		} else {
			require.NoError(t, err)
			_, err = m.ready()
			require.ErrorIs(t, err, io.EOF)
		}
		assert.Equal(t, test.lines, lines, "%q, %d", test.text, test.room)
		assert.Equal(t, test.want, written, "%q, %d", test.text, test.room)
	}
}
