//go:build unix

package run

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPump: all that an ended program has left in the pipe is read, though a child holds the pipe open, and prints more or not.
func TestPump(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "a line": "line\n", "a full pipe": strings.Repeat("x", pipeSize)} {
		for _, printsOn := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				r, w, err := os.Pipe()
				require.NoError(t, err)
				defer func() { _ = w.Close() }()
				_, err = w.WriteString(text)
				require.NoError(t, err)
				require.NoError(t, r.SetReadDeadline(time.Unix(1, 0)))
				child := make(chan struct{})
				go func() {
					defer close(child)
					for err := error(nil); printsOn && err == nil; {
						_, err = w.WriteString("more\n")
					}
				}()
				s := &stream{output: &output{}}
				pump(r, s)
				<-child
				var out bytes.Buffer
				_, err = s.kept.WriteTo(&out)
				require.NoError(t, err)
				assert.True(t, strings.HasPrefix(out.String(), text))
				assert.True(t, printsOn || out.Len() == len(text))
			})
		}
	}
}
