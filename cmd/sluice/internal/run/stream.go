package run

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// stream is one of the two outputs of a job. It keeps what is written until pass or [output.show] is called. From then
// on it passes whole lines on as they come.
type stream struct {
	output *output
	w      io.Writer
	tag    string

	mu      sync.Mutex
	passing bool    // whole lines pass as they come
	kept    capture // what has not passed: everything, or, when passing, the start of a line
	lines   int64   // bytes of the whole lines in kept
	size    int64   // bytes written
}

// Write takes what the job prints. Errors are reported to the output.
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

// pass passes on what was kept, and from now on whole lines as they come.
func (s *stream) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passing = true
	s.passLocked()
}

// endLine ends a line that has no end, so that no other job's line continues it.
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

// end is called when no program can write any longer. The start of a line that a child has left passes.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passing {
		s.endLineLocked()
	}
}

var errReplaced = errors.New("another try has taken its place")

// drop forgets what was kept, and what may still come.
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
