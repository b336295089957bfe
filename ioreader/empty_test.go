package ioreader_test

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/ioreader"
)

// telling counts the Writes that it gets: an http.ResponseWriter makes of the first, however
// short, a status of 200.
type telling struct{ writes int }

func (w *telling) Write(p []byte) (int, error) {
	w.writes++
	return len(p), nil
}

func (w *telling) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{w}, r) }

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
