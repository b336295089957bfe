package ioreader_test

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/ioreader"
)

// sizeless is a file whose size is said to be another, as those of /proc are.
type sizeless struct {
	*os.File
	size int64
}

func (s sizeless) Stat() (fs.FileInfo, error) {
	info, err := s.File.Stat()
	return sized{info, s.size}, err
}

type sized struct {
	fs.FileInfo
	size int64
}

func (s sized) Size() int64 { return s.size }

// telling counts the Writes that it gets: an http.ResponseWriter makes of the first, however
// short, a status of 200.
type telling struct{ writes int }

func TestNothingIsWrittenOfAnEmptyFile(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for name, src := range map[string]func(t *testing.T) (context.Context, *os.File){
		"empty": func(t *testing.T) (context.Context, *os.File) { return t.Context(), fileOf(t, nil) },
		"ended": func(t *testing.T) (context.Context, *os.File) { return ended, fileOf(t, pattern(100)) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, file := src(t)
			for _, limited := range []bool{false, true} {
				r := ioreader.NewReader(ctx, file, nil)
				if limited {
					r = ioreader.NewReader(ctx, file, perSecond(t, 1000))
				}
				w := new(telling)
				n, err := io.Copy(w, r)
				require.Zero(t, n)
				require.Equal(t, ctx.Err(), err)
				require.Zero(t, w.writes)
			}
		})
	}
}

func (w *telling) Write(p []byte) (int, error) {
	w.writes++
	return len(p), nil
}

func (w *telling) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{w}, r) }

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
