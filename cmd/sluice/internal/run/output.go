package run

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
)

// output is the destination of the jobs' output. It writes for one job at a time.
type output struct {
	mu       sync.Mutex
	out, err io.Writer
	failed   func(error) // called with the error of the first write that fails
	broken   bool        // a write has failed; nothing more is written
}

// show writes what the streams of a job keep, one after the other, and from now on all that they get. It reports whether no write
// has failed.
func (o *output) show(stdout, stderr *stream) bool {
	stdout.mu.Lock()
	defer stdout.mu.Unlock()
	stderr.mu.Lock()
	defer stderr.mu.Unlock()
	o.mu.Lock() // always taken last
	defer o.mu.Unlock()
	for _, s := range []*stream{stdout, stderr} {
		s.passing = true
		o.writeLocked(s, &s.kept)
	}
	return !o.broken
}

func (o *output) write(s *stream, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writeLocked(s, bytes.NewReader(text))
}

func (o *output) writeLocked(s *stream, from io.WriterTo) {
	w := s.w
	switch {
	case o.broken:
		w = io.Discard
	case s.tag != "":
		w = &tagger{w: w, tag: s.tag, fresh: true}
	}
	if _, err := from.WriteTo(w); err != nil && !o.broken {
		o.broken = true
		o.failed(err)
	}
}

// say prints a message.
func (o *output) say(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = fmt.Fprintf(o.err, "sluice run: %s\n", text)
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

// stream is stdout or stderr of a job. It keeps the output until [output.show] is called.
type stream struct {
	output *output
	w      io.Writer
	tag    string
	lines  bool // only whole lines are kept or pass

	mu      sync.Mutex
	passing bool    // output passes as it comes
	kept    capture // output that has not passed
	line    []byte  // with lines, the start of a line
	size    int64   // bytes that the current try has written
}

// Write takes output of the job. The output handles errors.
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size += int64(len(b))
	if !s.lines {
		s.kept.write(b)
		return len(b), nil
	}
	end := bytes.LastIndexByte(b, '\n') + 1
	s.line = append(s.line, b[:end]...)
	if end > 0 {
		s.passLineLocked()
	}
	s.line = append(s.line, b[end:]...)
	return len(b), nil
}

func (s *stream) passLineLocked() {
	if s.passing {
		s.output.write(s, s.line)
	} else {
		s.kept.write(s.line)
	}
	s.line = s.line[:0]
}

// start starts a try. The output of the try before is dropped, except for lines, which may have passed.
func (s *stream) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = 0
	if !s.lines {
		s.kept.close()
	}
}

// end ends an incomplete line, so that the line of another job does not continue it.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.line) > 0 {
		s.line = append(s.line, '\n')
		s.passLineLocked()
	}
}

// capture keeps what a job prints until it may be shown: in memory, or, if it is long, in a temporary file.
type capture struct {
	memory []byte
	file   *os.File
	err    error // why not all of it was kept
}

// maxInMemory is how much of one stream of one job is kept in memory.
const maxInMemory = 64 << 10

func (c *capture) write(b []byte) {
	switch {
	case c.err != nil:
	case c.file != nil:
		_, c.err = c.file.Write(b)
	case len(c.memory)+len(b) <= maxInMemory:
		c.memory = append(c.memory, b...)
	default:
		if c.file, c.err = os.CreateTemp("", "sluice-run-"); c.err == nil {
			_ = os.Remove(c.file.Name()) // the file lives until it is closed; if the system refuses this, close removes it
			_, c.err = c.file.Write(append(c.memory, b...))
			c.memory = nil
		}
	}
}

// WriteTo moves everything to w, or returns the reason why some of it is missing.
func (c *capture) WriteTo(w io.Writer) (n int64, err error) {
	defer c.close()
	switch {
	case c.err != nil:
		return 0, fmt.Errorf("keeping a job's output: %w", c.err)
	case c.file == nil:
		return bytes.NewReader(c.memory).WriteTo(w)
	}
	if _, err := c.file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	return io.Copy(w, c.file)
}

// close drops the captured output.
func (c *capture) close() {
	if c.file != nil {
		_ = c.file.Close()
		_ = os.Remove(c.file.Name())
	}
	*c = capture{}
}
