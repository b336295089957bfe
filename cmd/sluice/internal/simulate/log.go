package simulate

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"
)

// log is one log, which is read in a goroutine of its own.
type log struct {
	name   string
	file   io.ReadCloser
	format format
	plan   *plan
	out    chan []request // closed at the end of the log

	// The goroutine's, until out is closed.
	count  lineCount
	newest int64 // the latest time so far
	fine   bool  // a time had a fraction of a second
	err    error // why the log ended early
}

// lineCount tells about the lines of a log.
type lineCount struct {
	requests, bad, late        int
	latest                     time.Duration // how late the latest one of late was
	durations, statuses, paths int           // requests that have one
}

func (c *lineCount) add(d lineCount) {
	c.requests += d.requests
	c.bad += d.bad
	c.late += d.late
	c.latest = max(c.latest, d.latest)
	c.durations += d.durations
	c.statuses += d.statuses
	c.paths += d.paths
}

// openLog opens a file; "-" is standard input.
func openLog(name string, stdin io.Reader, f format, p *plan) (*log, error) {
	l := &log{name: name, format: f, plan: p, out: make(chan []request, 4)}
	if name == "-" {
		l.name, l.file = "standard input", io.NopCloser(stdin)
		return l, nil
	}
	var err error
	l.file, err = os.Open(name)
	return l, err
}

const (
	batchSize   = 2048
	longestLine = 16 << 20
)

// run reads the log until its end or that of ctx.
func (l *log) run(ctx context.Context) {
	defer close(l.out)
	defer func() { _ = l.file.Close() }()
	if err := l.read(ctx); err != nil {
		l.err = fmt.Errorf("%s: %w", l.name, err)
	}
}

func (l *log) read(ctx context.Context) error {
	text, err := decompress(l.file)
	if err != nil {
		return err
	}
	defer func() { _ = text.Close() }()
	lines := bufio.NewScanner(text)
	lines.Buffer(make([]byte, 0, 1<<20), longestLine)
	batch := make([]request, 0, batchSize)
	var r record
	for first := true; lines.Scan(); first = false {
		line := lines.Bytes()
		if first {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // some programs begin UTF-8 with it
		}
		switch {
		case len(line) == 0:
		case l.format.parse(line, &r):
			batch = append(batch, l.request(&r))
		case line[0] != '#': // else a comment
			l.count.bad++
		}
		if len(batch) == batchSize {
			if !l.send(ctx, batch) {
				return ctx.Err()
			}
			batch = make([]request, 0, batchSize)
		}
	}
	if len(batch) > 0 && !l.send(ctx, batch) {
		return ctx.Err()
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("a line is longer than %d MiB; want %s", longestLine>>20, formats)
	case err != nil:
		return err
	}
	return l.unreadable()
}

func (l *log) send(ctx context.Context, batch []request) bool {
	select {
	case l.out <- batch:
		return true
	case <-ctx.Done():
		return false
	}
}

// request returns what is to be played of a record. A line that is late counts at the newest time so far.
func (l *log) request(r *record) request {
	l.fine = l.fine || r.at%int64(time.Second) != 0
	if late := l.newest - r.at; late > 0 && l.count.requests > 0 {
		l.count.late++
		l.count.latest = max(l.count.latest, time.Duration(late))
		r.at = l.newest
	}
	l.newest = r.at
	l.count.requests++
	if r.took > 0 {
		l.count.durations++
	}
	if r.status > 0 {
		l.count.statuses++
	}
	if len(r.path) > 0 {
		l.count.paths++
	}
	q := l.plan.request(r)
	q.coarse = !l.fine
	return q
}

// unreadable returns an error if no line was a request and some should have been.
func (l *log) unreadable() error {
	if l.count.requests > 0 || l.count.bad == 0 {
		return nil
	}
	var json *jsonLines
	switch f := l.format.(type) {
	case *jsonLines:
		json = f
	case *detector:
		json = f.json
	}
	if json.timeless > 0 {
		return errors.New("its JSON does not have the time where it was looked for; --fields time=NAME says where it is")
	}
	return fmt.Errorf("none of its %d lines is a request; want %s", l.count.bad, formats)
}

// decompress returns the text of a log.
func decompress(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	magic, _ := b.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b)
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case bytes.HasPrefix(magic, []byte("BZh")):
		return io.NopCloser(bzip2.NewReader(b)), nil
	}
	return io.NopCloser(b), nil
}
