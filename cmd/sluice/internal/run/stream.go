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
	kept    capture // what has not passed: everything, or, when passing, the beginning of a line
	size    int64   // bytes written
	begun   bool    // the last line has no end yet
}

// Write takes what the job prints. Errors are reported to the output.
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	s.size += int64(len(b))
	s.begun = b[len(b)-1] != '\n'
	s.takeLocked(b)
	return len(b), nil
}

func (s *stream) takeLocked(b []byte) {
	if s.passing {
		s.passLocked(b)
	} else {
		_, _ = s.kept.Write(b)
	}
}

// passLocked passes whole lines on, and keeps the beginning of the next one.
func (s *stream) passLocked(b []byte) {
	if end := bytes.LastIndexByte(b, '\n') + 1; end > 0 {
		s.output.write(s.w, s.tag, &s.kept, b[:end])
		s.kept.reset()
		b = b[end:]
	}
	if len(b) > 0 {
		_, _ = s.kept.Write(b)
	}
}

// pass passes on what was kept, and from now on whole lines as they come.
func (s *stream) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passing {
		return
	}
	s.passing = true
	before := s.kept
	s.kept = capture{}
	defer before.close()
	r, err := before.reader()
	if err == nil {
		_, err = io.Copy(passer{s}, r)
	}
	s.output.fail(err)
}

// passer is passLocked as an [io.Writer].
type passer struct{ *stream }

func (p passer) Write(b []byte) (int, error) {
	p.passLocked(b)
	return len(b), nil
}

// endLine ends a line that has no end, so that no other job's line continues it.
func (s *stream) endLine() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLineLocked()
}

func (s *stream) endLineLocked() {
	if s.begun {
		s.begun = false
		s.takeLocked([]byte{'\n'})
	}
}

// end is called when nobody writes any longer. The beginning of a line that a child has left passes.
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
