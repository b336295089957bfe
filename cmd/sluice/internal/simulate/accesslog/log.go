// Package accesslog reads the requests of an access log: in the common or combined format, with a JSON object on each line,
// or of HAProxy, AWS' load balancers, CloudFront or IIS.
//
//	l, err := accesslog.New("")
//	...
//	err = l.Read(file, func(r *accesslog.Record) error { ... })
package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// Log is one log. Its count may be read when Read has returned.
type Log struct {
	Count

	format format
	newest int64 // the latest time so far
	fine   bool  // a time had a fraction of a second
}

// Count is about the lines of a log.
type Count struct {
	Requests, Bad, Late               int
	Latest                            time.Duration // how late the latest of Late was
	Durations, Statuses, Paths, Costs int           // requests that have one
}

// Add adds the count of another log.
func (c *Count) Add(d Count) {
	c.Requests += d.Requests
	c.Bad += d.Bad
	c.Late += d.Late
	c.Latest = max(c.Latest, d.Latest)
	c.Durations += d.Durations
	c.Statuses += d.Statuses
	c.Costs += d.Costs
	c.Paths += d.Paths
}

// New returns a log to read. fields says where the JSON objects of its lines have what, as time=ts,key=user.id; "": the log
// is in the format of the first line that is a request in any.
func New(fields string) (*Log, error) {
	json, err := newJSONLines(fields)
	if err != nil {
		return nil, err
	}
	if fields != "" {
		return &Log{format: json}, nil
	}
	return &Log{format: newDetector(json)}, nil
}

// ErrFormat is the error of a text that is in none of the formats.
var ErrFormat = errors.New("want " + formats)

const longestLine = 16 << 20

// Read reads the log's text to its end and calls each with its requests. The record is each's until it returns. Read returns
// the error of each, or of the text, or one that wraps [ErrFormat].
func (l *Log) Read(text io.Reader, each func(*Record) error) error {
	lines := bufio.NewScanner(text)
	lines.Buffer(make([]byte, 0, 1<<20), longestLine)
	var r Record
	for first := true; lines.Scan(); first = false {
		line := lines.Bytes()
		if first {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // some programs begin UTF-8 with it
		}
		switch {
		case len(line) == 0:
		case l.format.parse(line, &r):
			l.count(&r)
			if err := each(&r); err != nil {
				return err
			}
		case line[0] != '#': // else a comment
			l.Bad++
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("a line is longer than %d MiB; %w", longestLine>>20, ErrFormat)
	case err != nil:
		return err
	}
	return l.unreadable()
}

// count counts a request. One that is late counts at the newest time so far. It is not late by what it took: many logs have
// a line when the answer has ended, with the time when the request came.
func (l *Log) count(r *Record) {
	l.fine = l.fine || r.At%int64(time.Second) != 0
	r.Coarse = !l.fine
	switch late := l.newest - r.At; {
	case late <= 0 || l.Requests == 0:
		l.newest = r.At
	case late > r.Took:
		l.Late++
		l.Latest = max(l.Latest, time.Duration(late))
		r.At = l.newest
	}
	l.Requests++
	if r.Took > 0 {
		l.Durations++
	}
	if r.Status > 0 {
		l.Statuses++
	}
	if len(r.Path) > 0 {
		l.Paths++
	}
	if len(r.Cost) > 0 {
		l.Costs++
	}
}

// unreadable returns an error if no line was a request and some should have been.
func (l *Log) unreadable() error {
	if l.Requests > 0 || l.Bad == 0 {
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
	return fmt.Errorf("none of its %d lines is a request; %w", l.Bad, ErrFormat)
}
