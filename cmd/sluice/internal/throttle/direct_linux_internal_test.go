package throttle

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The pipes of package os do not block, as those of a caller may not.
func TestDirectCopiesBetweenPipesThatDoNotBlock(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789\n"), 300_000)
	// The window has exactly the permits that the text needs.
	for _, rate := range []string{"unlimited", "50MB/s", fmt.Sprintf("fixed %d/1h", len(text))} {
		t.Run(rate, func(t *testing.T) {
			from, in, err := os.Pipe()
			require.NoError(t, err)
			out, to, err := os.Pipe()
			require.NoError(t, err)
			p := spending(t, rate).pace
			j := &job{pace: p, sink: &sink{f: to}}
			go func() {
				for rest := text; len(rest) > 0; {
					n := min(1+rand.IntN(200_000), len(rest))
					_, _ = in.Write(rest[:n])
					rest = rest[n:]
				}
				_ = in.Close()
			}()
			done := make(chan error)
			go func() {
				err := j.direct(t.Context(), from, fs.ModeNamedPipe)
				_ = to.Close()
				done <- err
			}()
			got, err := io.ReadAll(out)
			require.NoError(t, err)
			require.NoError(t, <-done)
			assert.True(t, bytes.Equal(text, got))
			assert.Equal(t, int64(len(text)), j.sink.n.Load())
		})
	}
}
