package run

import (
	"bytes"
	"io"
	"sync"
)

// output is the destination of the jobs' output. It writes for one job at a time.
type output struct {
	mu       sync.Mutex
	out, err io.Writer
	failed   func(error) // called with the error of the first write that fails
	broken   bool        // a write has failed; nothing more is written
}

// show writes all that a job has printed. Later output of the streams passes line by line.
func (o *output) show(stdout, stderr *stream) {
	stdout.mu.Lock()
	defer stdout.mu.Unlock()
	stderr.mu.Lock()
	defer stderr.mu.Unlock()
	o.mu.Lock() // always taken last
	defer o.mu.Unlock()
	for _, s := range []*stream{stdout, stderr} {
		s.passing = true
		o.failLocked(o.writeLocked(s, s.kept.size))
	}
}

// write writes the first n bytes that a stream keeps.
func (o *output) write(s *stream, n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failLocked(o.writeLocked(s, n))
}

func (o *output) writeLocked(s *stream, n int64) error {
	if n == 0 {
		return nil
	}
	w := s.w
	switch {
	case o.broken:
		w = io.Discard
	case s.tag != "":
		w = &tagger{w: w, tag: s.tag, fresh: true}
	}
	return s.kept.moveTo(w, n)
}

func (o *output) failLocked(err error) {
	if err != nil && !o.broken {
		o.broken = true
		o.failed(err)
	}
}

// intact reports whether no write has failed.
func (o *output) intact() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.broken
}

// tagger writes a tag in front of each line.
type tagger struct {
	w     io.Writer
	tag   string
	fresh bool // the next byte starts a line
	buf   []byte
}

func (t *tagger) Write(b []byte) (int, error) {
	t.buf = t.buf[:0]
	for line := range bytes.SplitAfterSeq(b, []byte("\n")) {
		if t.fresh && len(line) > 0 {
			t.buf = append(t.buf, t.tag...)
		}
		t.buf = append(t.buf, line...)
		t.fresh = bytes.HasSuffix(line, []byte("\n"))
	}
	if _, err := t.w.Write(t.buf); err != nil {
		return 0, err
	}
	return len(b), nil
}
