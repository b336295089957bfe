package run

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"syscall"
)

// output is where the jobs' output goes. It writes for one job at a time.
type output struct {
	mu       sync.Mutex
	out, err io.Writer
	failed   func(error) // called with the error of the first write that fails
	broken   bool        // a write has failed; nothing is written any more
}

// show writes a job's output, all of it at once, and reports whether the output is not broken. What the streams get
// later passes in lines.
func (o *output) show(stdout, stderr *stream) bool {
	stdout.mu.Lock()
	defer stdout.mu.Unlock()
	stderr.mu.Lock()
	defer stderr.mu.Unlock()
	o.mu.Lock() // always the last
	defer o.mu.Unlock()
	for _, s := range []*stream{stdout, stderr} {
		o.copyLocked(s.w, s.tag, &s.kept)
		s.kept.close()
		s.passing, s.begun = true, false
	}
	return !o.broken
}

func (o *output) copyLocked(w io.Writer, tag string, c *capture) {
	if o.broken || c.size == 0 {
		return
	}
	r, err := c.reader()
	if err == nil {
		_, err = io.Copy(tagged(w, tag), r)
	}
	o.failLocked(err)
}

// write writes whole lines of a job that is running: the beginning of the first one, and the rest.
func (o *output) write(w io.Writer, tag string, begun *capture, rest []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w = tagged(w, tag)
	o.copyLocked(w, "", begun)
	if !o.broken {
		_, err := w.Write(rest)
		o.failLocked(err)
	}
}

// fail reports an error, unless err is nil.
func (o *output) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failLocked(err)
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

// errBroken reports whether err means that nobody reads the output any longer.
func errBroken(err error) bool { return errors.Is(err, syscall.EPIPE) }

// tagged returns a writer that writes the tag in front of each line.
func tagged(w io.Writer, tag string) io.Writer {
	if tag == "" {
		return w
	}
	return &tagger{w: w, tag: tag, fresh: true}
}

type tagger struct {
	w     io.Writer
	tag   string
	fresh bool // the next byte begins a line
	buf   []byte
}

func (t *tagger) Write(b []byte) (int, error) {
	t.buf = t.buf[:0]
	for rest := b; len(rest) > 0; {
		if t.fresh {
			t.buf = append(t.buf, t.tag...)
		}
		i := bytes.IndexByte(rest, '\n')
		if t.fresh = i >= 0; !t.fresh {
			i = len(rest) - 1
		}
		t.buf = append(t.buf, rest[:i+1]...)
		rest = rest[i+1:]
	}
	if _, err := t.w.Write(t.buf); err != nil {
		return 0, err
	}
	return len(b), nil
}
