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
	for name, text := range map[string]string{"nothing": "", "a line": "line\n", "a full pipe": strings.Repeat("x", 64<<10)} {
		for _, pause := range []time.Duration{-1, 0, time.Millisecond} { // of the child; -1: it prints nothing
			printsOn := pause >= 0
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
						time.Sleep(pause)
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
				assert.True(t, pause <= 0 || out.Len()-len(text) < 32<<10, "a child that prints slowly does not hold the job up")
			})
		}
	}
}
