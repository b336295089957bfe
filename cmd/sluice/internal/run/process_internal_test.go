//go:build unix

package run

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// piped returns a pump, the other end of its pipe, and its stream, which keeps all. start starts it; end closes the pipe and
// waits for it.
func piped(t *testing.T) (p *pump, w *os.File, s *stream, start, end func()) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	s = &stream{output: &output{}, w: io.Discard}
	p = new(newPump(r, s))
	var all sync.WaitGroup
	t.Cleanup(s.kept.close)
	return p, w, s, func() { all.Go(p.run) }, func() {
		_ = w.Close()
		all.Wait()
	}
}

// printed returns what a stream has got since the last call.
func printed(t *testing.T, s *stream) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	require.NoError(t, s.kept.moveTo(&b, s.kept.size))
	return b.String()
}

// TestPumpCatchesUp: what a program has left in the pipe is there when its end is known, though a child holds the pipe
// open; and what the child prints later is not lost.
func TestPumpCatchesUp(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "a line": "line\n", "a full pipe": strings.Repeat("x", pipeSize)} {
		t.Run(name, func(t *testing.T) {
			p, w, s, start, end := piped(t)
			_, err := w.WriteString(text)
			require.NoError(t, err)
			p.catch() // before it has read anything
			start()
			<-p.caught
			assert.Equal(t, text, printed(t, s))
			_, err = w.WriteString("late")
			require.NoError(t, err)
			end()
			assert.Equal(t, "late", printed(t, s))
		})
	}
}

// TestPumpOfAChildThatPrintsOn: the pump does not wait for the end of a child that keeps printing.
func TestPumpOfAChildThatPrintsOn(t *testing.T) {
	p, w, s, start, end := piped(t)
	_, err := w.WriteString(strings.Repeat("first\n", pipeSize/6))
	require.NoError(t, err)
	printing := make(chan struct{})
	go func() {
		defer close(printing)
		for {
			if _, err := w.WriteString("more\n"); err != nil {
				return
			}
		}
	}()
	start()
	p.catch()
	<-p.caught
	assert.GreaterOrEqual(t, len(printed(t, s)), pipeSize/6*6)
	end()
	<-printing
}

// TestStreamOfAnEarlierTry: nothing is kept of what a child of it prints later.
func TestStreamOfAnEarlierTry(t *testing.T) {
	s := &stream{output: &output{}, w: io.Discard}
	s.drop()
	n, err := s.Write(make([]byte, 2*maxInMemory))
	require.NoError(t, err)
	assert.Equal(t, 2*maxInMemory, n)
	assert.Nil(t, s.kept.file)
}

// TestRunningIsOver: a program that starts while all are ended is to be ended as well.
func TestRunningIsOver(t *testing.T) {
	r, p := newRunning(), new(process)
	assert.True(t, r.add(p))
	r.remove(p)
	r.end()
	assert.False(t, r.add(new(process)))
	assert.True(t, r.areGone())
}

// TestReadNow: it waits for nothing.
func TestReadNow(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	b := make([]byte, 10)
	n, err := readNow(r, b)
	assert.Equal(t, 0, n)
	require.NoError(t, err)
	_, err = w.WriteString("abc")
	require.NoError(t, err)
	n, err = readNow(r, b)
	assert.Equal(t, "abc", string(b[:n]))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, err = readNow(r, b)
	assert.Equal(t, io.EOF, err)
}
