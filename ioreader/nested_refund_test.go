package ioreader_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/ioreader"
)

// A Writer around another with the same limiter gives back the permits of bytes that were not
// written, as a single Writer does.
func TestNestedWritersGiveBackWhatWasNotWritten(t *testing.T) {
	errSink := errors.New("the sink failed")
	for _, nested := range []bool{false, true} {
		l := bucketOf(t, 1000, 1, time.Hour)
		w := ioreader.NewWriter(t.Context(), &failing{err: errSink}, l)
		if nested {
			w = ioreader.NewWriter(t.Context(), w, l)
		}
		n, err := w.Write(make([]byte, 100))
		require.ErrorIs(t, err, errSink)
		require.Zero(t, n)
		require.Equal(t, 1000, l.Available(), "nested: %v", nested)
	}
}

// A Reader of a file pays for no byte that a WriteTo has left in the file.
func TestWriteToOfAFilePaysForNothingThatStaysInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 100), 0o600))
	in, err := os.Open(path)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.Open(path) // not open for writing, so every write fails
	require.NoError(t, err)
	defer out.Close()

	l := bucketOf(t, 1000, 1, time.Hour)
	n, err := ioreader.NewReader(t.Context(), in, l).WriteTo(out)
	require.Error(t, err)
	require.Zero(t, n)
	at, err := in.Seek(0, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1000-at, l.Available(), "%d bytes were read", at)
}
