package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"syscall"
)

// output is where the jobs' output goes: never two at once.
type output struct {
	mu       sync.Mutex
	out, err io.Writer
	failed   func(error) // told of the first write that fails
	broken   bool
}

// show writes a job's output, each line with the tag.
func (o *output) show(tag string, stdout, stderr *capture) {
	if stdout.size == 0 && stderr.size == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.copy(o.out, tag, stdout)
	o.copy(o.err, tag, stderr)
	stdout.close()
	stderr.close()
}

func (o *output) copy(w io.Writer, tag string, c *capture) {
	if o.broken || c.size == 0 {
		return
	}
	r, err := c.reader()
	if err == nil {
		if tag != "" {
			w = &tagger{w: w, tag: tag, fresh: true}
		}
		_, err = io.Copy(w, r)
	}
	o.check(err)
}

// fail tells of an error, if it is one.
func (o *output) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.check(err)
}

func (o *output) check(err error) {
	if err != nil && !o.broken {
		o.broken = true
		o.failed(err)
	}
}

// write writes whole lines of a job that is running: what was kept of the first, and the rest.
func (o *output) write(w io.Writer, tag string, begun *capture, rest []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken {
		return
	}
	if tag != "" {
		w = &tagger{w: w, tag: tag, fresh: true}
	}
	if begun.size > 0 {
		r, err := begun.reader()
		if err == nil {
			_, err = io.Copy(w, r)
		}
		o.check(err)
		if err != nil {
			return
		}
	}
	_, err := w.Write(rest)
	o.check(err)
}

// errBroken reports whether nobody reads the output any longer.
func errBroken(err error) bool { return errors.Is(err, syscall.EPIPE) }

// tagger writes the tag in front of each line.
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

// byLine passes the whole lines of a job on as they come. The last one gets an end if it has none, so that no other
// job's line continues it.
type byLine struct {
	o    *output
	w    io.Writer
	tag  string
	line capture // begun
}

// liner takes what a job prints, and ends a line that was begun.
type liner interface {
	io.Writer
	flush()
}

func (l *byLine) Write(b []byte) (int, error) {
	n := len(b)
	if end := bytes.LastIndexByte(b, '\n') + 1; end > 0 {
		l.pass(b[:end])
		b = b[end:]
	}
	if len(b) > 0 {
		_, _ = l.line.Write(b) // pass tells of an error
	}
	return n, nil
}

// pass passes on what was begun and what ends it.
func (l *byLine) pass(b []byte) {
	l.o.write(l.w, l.tag, &l.line, b)
	if l.line.file != nil {
		l.line.close()
	}
	l.line.memory, l.line.size = l.line.memory[:0], 0
}

// flush passes what is left on, as a line.
func (l *byLine) flush() {
	if l.line.size > 0 {
		l.pass([]byte{'\n'})
	}
}

// sequence lets finished jobs pass in the order of their numbers.
type sequence struct {
	mu      sync.Mutex
	next    int
	waiting map[int]finished
	turns   map[int]func() // of jobs that run: what they do when all before them have been done
	held    int            // what those that wait take
	room    *sync.Cond     // signalled when some have passed
}

// finished is a job that waits for its turn.
type finished struct {
	pass func()
	held int // the bytes that its output takes, a file counting as fileHeld
}

func newSequence() *sequence {
	s := &sequence{next: 1, waiting: make(map[int]finished), turns: make(map[int]func())}
	s.room = sync.NewCond(&s.mu)
	return s
}

// How many finished jobs may wait for one before them, and what their output may take, before no more are started.
const (
	mostFinished = 10_000
	mostHeld     = 64 << 20
	fileHeld     = 256 << 10 // 256 open files in all
)

// full reports whether no more jobs are to start. It must be called with s.mu held.
func (s *sequence) full() bool { return len(s.waiting) >= mostFinished || s.held >= mostHeld }

// begins runs f when all before seq have been done, if seq has not been by then.
func (s *sequence) begins(seq int, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == seq {
		f()
	} else {
		s.turns[seq] = f
	}
}

// done runs f, and all that waited for it, when all before seq have been done. Until then the job holds so many bytes.
func (s *sequence) done(seq, held int, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[seq] = finished{f, held}
	delete(s.turns, seq)
	s.held += held
	for {
		j, ok := s.waiting[s.next]
		if !ok {
			break
		}
		delete(s.waiting, s.next)
		s.next++
		j.pass()
		s.held -= j.held
		s.room.Broadcast()
	}
	if f, ok := s.turns[s.next]; ok {
		delete(s.turns, s.next)
		f()
	}
}

// wait blocks while too many wait for one that still runs, and ctx is not done.
func (s *sequence) wait(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.full() {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Broadcast()
	})
	defer stop()
	for s.full() && ctx.Err() == nil {
		s.room.Wait()
	}
}

// flush lets all pass that wait for one that never ran.
func (s *sequence) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seq := range slices.Sorted(maps.Keys(s.waiting)) {
		s.waiting[seq].pass()
		delete(s.waiting, seq)
	}
}
