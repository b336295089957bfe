// Package accesslog reads the requests of an access log: in the common or combined format, with a JSON object on each line,
// or of Envoy, HAProxy, AWS' load balancers, CloudFront, S3 or IIS. The lines may have a prefix of syslog, Docker or
// Kubernetes.
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

	format *detector
	fine   bool // a time had a fraction of a second
}

// Count counts the lines of a log.
type Count struct {
	Requests, Bad                     int
	Durations, Statuses, Paths, Costs int           // requests that have one
	Lists                             int           // requests whose client is the first of a list of addresses
	Unread                            int           // requests whose duration cannot be read
	Unit                              time.Duration // of durations, if it was guessed; else 0
}

// Add adds the count of another log.
func (c *Count) Add(d Count) {
	c.Requests += d.Requests
	c.Bad += d.Bad
	c.Durations += d.Durations
	c.Statuses += d.Statuses
	c.Costs += d.Costs
	c.Paths += d.Paths
	c.Lists += d.Lists
	c.Unread += d.Unread
	if c.Unit == 0 {
		c.Unit = d.Unit
	}
}

// Notes returns notes on how the lines were read.
func (c *Count) Notes() (notes []string) {
	if c.Unit != 0 {
		notes = append(notes, "duration read as "+unitNames[c.Unit]+"; for JSON, --fields duration=NAME:ms (or s, us, ns) says otherwise")
	}
	if c.Unread > 0 {
		notes = append(notes, fmt.Sprintf("durations that cannot be read: %d of %d; they count as none", c.Unread, c.Requests))
	}
	if c.Lists > 0 {
		notes = append(notes, fmt.Sprintf("lists of addresses: %d of %d; the client is the first of each", c.Lists, c.Requests))
	}
	return notes
}

var unitNames = map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds"}

// New returns a log to read. fields says where the fields are in the JSON objects of its lines, as in time=ts,key=user.id.
// If fields is "", the log has the format of the first line that is a request in any format.
func New(fields string) (*Log, error) {
	json, err := newJSONLines(fields)
	if err != nil {
		return nil, err
	}
	if fields != "" {
		return &Log{format: newDetector(json)}, nil
	}
	return &Log{format: newDetector(json, textFormats()...)}, nil
}

// ErrFormat is the error of a text that is in none of the formats.
var ErrFormat = errors.New("want " + formats)

const longestLine = 16 << 20

// Read reads the log's text to its end and calls each with every request. The record is valid until each returns. Read
// returns an error of each or of the text, or one that wraps [ErrFormat].
func (l *Log) Read(text io.Reader, each func(*Record) error) error {
	lines := bufio.NewScanner(text)
	lines.Buffer(make([]byte, 0, 1<<20), longestLine)
	var r Record
	for first := true; lines.Scan(); first = false {
		line := lines.Bytes()
		if first {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // some programs start UTF-8 with it
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

// count counts a request.
func (l *Log) count(r *Record) {
	l.fine = l.fine || r.At%int64(time.Second) != 0
	r.Coarse = !l.fine
	r.pickClient()
	l.Requests++
	if r.Took > 0 {
		l.Durations++
		if l.Unit == 0 {
			l.Unit = r.Unit
		}
	}
	if r.Unread {
		l.Unread++
	}
	if r.List {
		l.Lists++
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
	switch json := l.format.json; {
	case json.badTime != "":
		return fmt.Errorf("its JSON has times such as %q; want RFC 3339 or a Unix time, or --fields time=NAME if the time is elsewhere", json.badTime)
	case json.timeless > 0:
		return errors.New("its JSON does not have the time where it was looked for; --fields time=NAME says where it is")
	case json.others > 0:
		return errors.New("its JSON lines have a time, but no method, path or status; --fields method=NAME,path=NAME,status=NAME says where they are")
	}
	return fmt.Errorf("none of its %d lines is a request; %w", l.Bad, ErrFormat)
}
