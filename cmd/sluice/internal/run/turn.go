package run

import (
	"io"
	"sync"
)

// turn passes the lines of a job on once all jobs before it have ended. Until then they are kept.
type turn struct {
	mu      sync.Mutex
	come    bool
	streams [2]inTurn
}

// inTurn is one of the two streams of a job.
type inTurn struct {
	t     *turn
	lines *byLine
	kept  capture
	begun bool // a line that was kept has no end
}

func newTurn(stdout, stderr *byLine) *turn {
	t := new(turn)
	t.streams = [2]inTurn{{t: t, lines: stdout}, {t: t, lines: stderr}}
	return t
}

func (s *inTurn) Write(b []byte) (int, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.t.come {
		return s.lines.Write(b)
	}
	if len(b) > 0 {
		_, _ = s.kept.Write(b) // begin tells of an error
		s.begun = b[len(b)-1] != '\n'
	}
	return len(b), nil
}

// flush ends a line that was begun.
func (s *inTurn) flush() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.t.come {
		s.lines.flush()
	} else if s.begun {
		_, _ = s.kept.Write([]byte{'\n'})
		s.begun = false
	}
}

// begin passes on what was kept, and from now on what comes.
func (t *turn) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.come {
		return
	}
	t.come = true
	for i := range t.streams {
		s := &t.streams[i]
		r, err := s.kept.reader()
		if err == nil {
			_, err = io.Copy(s.lines, r)
		}
		s.lines.o.fail(err)
		s.kept.close()
	}
}

// held is what it takes while it is kept.
func (t *turn) held() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.streams[0].kept.held() + t.streams[1].kept.held()
}
