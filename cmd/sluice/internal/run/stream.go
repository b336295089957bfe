package run

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// stream is stdout or stderr of a job. It keeps the output until pass or [output.show] is called. After that it passes on
// whole lines as they come.
type stream struct {
	output *output
	w      io.Writer
	tag    string

	mu      sync.Mutex
	passing bool    // whole lines pass as they come
	kept    capture // output that has not passed: all of it, or, when passing, the start of a line
	lines   int64   // bytes of the whole lines in kept
	size    int64   // bytes written
}

// Write takes output of the job. The output handles errors.
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size += int64(len(b))
	s.writeLocked(b)
	return len(b), nil
}

func (s *stream) writeLocked(b []byte) {
	if end := bytes.LastIndexByte(b, '\n') + 1; end > 0 {
		s.lines = s.kept.size + int64(end)
	}
	s.kept.write(b)
	if s.passing {
		s.passLocked()
	}
}

func (s *stream) passLocked() {
	s.output.write(s, s.lines)
	s.lines = 0
}

// pass passes on the kept lines, and from now on whole lines as they come.
func (s *stream) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passing = true
	s.passLocked()
}

// endLine ends an incomplete line, so that the line of another job does not continue it.
func (s *stream) endLine() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLineLocked()
}

func (s *stream) endLineLocked() {
	if s.kept.size > s.lines {
		s.writeLocked([]byte{'\n'})
	}
}

// end is called when no program can write any more. If the stream is passing, an incomplete last line passes too.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passing {
		s.endLineLocked()
	}
}

var errReplaced = errors.New("another try has taken its place")

// drop discards the kept output and all later output.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.close()
	s.kept.err = errReplaced
}

// written returns how many bytes were written.
func (s *stream) written() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}
