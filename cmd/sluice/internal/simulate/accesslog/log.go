// Package accesslog reads the requests of an access log: in the common or combined format, with a JSON object on each line,
// or of Envoy, HAProxy, AWS' load balancers, CloudFront, S3 or IIS. The lines may have a prefix of syslog, Docker or
// Kubernetes.
//
//	l, err := accesslog.New("")
//	...
//	for r := range l.Read(file) {
//		...
//	}
//	err = l.Err()
package accesslog

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Log is one log. Its count may be read when the loop over its requests has ended.
type Log struct {
	Count

	onlyJSON bool
	json     *jsonLines
	w3c      w3c
	words    [][]byte // words of the current line
	r        Record   // the current request
	fine     bool     // a time had a fraction of a second
	err      error
}

// Count counts the lines of a log.
type Count struct {
	Requests, Bad    int
	Durations, Paths int           // requests that have one
	Early            int           // requests whose time is a number of a few years after 1970
	Lists            int           // requests whose client is the first of a list of addresses
	Unit             time.Duration // unit of durations, if it was guessed; else 0
}

// Add adds the count of another log.
func (c *Count) Add(d Count) {
	c.Requests += d.Requests
	c.Bad += d.Bad
	c.Durations += d.Durations
	c.Paths += d.Paths
	c.Early += d.Early
	c.Lists += d.Lists
	c.Unit = cmp.Or(c.Unit, d.Unit)
}

// Notes returns notes on how the lines were read.
func (c *Count) Notes() (notes []string) {
	if c.Unit != 0 {
		notes = append(notes, "duration read as "+unitNames[c.Unit]+"; for JSON, --fields duration=NAME:ms (or s, us, ns) says otherwise")
	}
	if c.Early > 0 {
		notes = append(notes, fmt.Sprintf("times before 1973: %d of %d; is the time elsewhere? --fields time=NAME says where", c.Early, c.Requests))
	}
	if c.Lists > 0 {
		notes = append(notes, fmt.Sprintf("lists of addresses: %d of %d; the client is the first of each", c.Lists, c.Requests))
	}
	return notes
}

var unitNames = map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds"}

// New returns a log to read. fields says where the fields are in the JSON objects of its lines, as in time=ts,key=user.id;
// then only JSON is read.
func New(fields string) (*Log, error) {
	json, err := newJSONLines(fields)
	return &Log{onlyJSON: fields != "", json: json}, err
}

const formats = "the common or combined format, JSON lines with a time, or a log of Envoy, HAProxy (option httplog), AWS ALB, " +
	"CloudFront, S3 or IIS; plain, or compressed with gzip, bzip2 or zstd"

const longestLine = 16 << 20

// Read yields the requests of a file, each valid until the next. Call Err when the loop has ended.
func (l *Log) Read(file io.Reader) iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		text, err := decompress(file)
		if err != nil {
			l.err = err
			return
		}
		defer func() { _ = text.Close() }()
		lines := bufio.NewScanner(text)
		lines.Buffer(make([]byte, 0, 1<<20), longestLine)
		for lines.Scan() {
			line := bytes.TrimRight(lines.Bytes(), " ")
			if mark := bytes.Index(line, []byte("\ufeff")); mark >= 0 { // some programs start UTF-8 with it
				line = slices.Delete(line, mark, mark+len("\ufeff"))
			}
			switch {
			case len(line) == 0:
			case l.parse(line):
				l.count(&l.r)
				if !yield(&l.r) {
					return
				}
			case !l.w3c.directive(line) && line[0] != '#': // else a comment
				l.Bad++
			}
		}
		if l.err = lines.Err(); errors.Is(l.err, bufio.ErrTooLong) {
			l.err = fmt.Errorf("a line is longer than %d MiB; want %s", longestLine>>20, formats)
		}
	}
}

// parse sets l.r, and reports whether the line is a request.
func (l *Log) parse(line []byte) bool {
	if start := bytes.IndexByte(line, '{'); start >= 0 && line[len(line)-1] == '}' && gjson.ValidBytes(line[start:]) &&
		l.parseJSON(gjson.ParseBytes(line[start:])) {
		return true
	}
	if l.onlyJSON {
		return false
	}
	l.words = split(line, l.words[:0])
	return l.w3c.parse(line, l.words, &l.r) || l.r.parse(l.words)
}

// parseJSON parses an object, or the line in it: collectors put lines into objects. Such an object may have a time of the
// name that the user gives, so then the line in it goes first.
func (l *Log) parseJSON(object gjson.Result) bool {
	ok := l.json.parse(object, &l.r)
	if ok && !l.json.named["time"] {
		return true
	}
	for _, name := range []string{"log", "message", "MESSAGE"} { // Docker and Fluent Bit, Filebeat, and the journal
		if line := object.Get(name); line.Type == gjson.String && line.Str != "" && l.parse([]byte(strings.TrimRight(line.Str, "\r\n"))) {
			return true
		}
	}
	return ok && l.json.parse(object, &l.r)
}

// count counts a request.
func (l *Log) count(r *Record) {
	l.fine = l.fine || r.At%int64(time.Second) != 0
	r.Coarse = !l.fine
	r.pickClient()
	l.Requests++
	if r.Took > 0 {
		l.Durations++
		l.Unit = cmp.Or(l.Unit, r.Unit)
	}
	if r.Early {
		l.Early++
	}
	if r.List {
		l.Lists++
	}
	if len(r.Path) > 0 {
		l.Paths++
	}
}

// Err returns the error of the log: of its text, or one that says that no line was a request, although some should have
// been.
func (l *Log) Err() error {
	if l.err != nil || l.Requests > 0 || l.Bad == 0 {
		return l.err
	}
	switch json := l.json; {
	case json.badTime != "":
		return fmt.Errorf("its JSON has times such as %q; want RFC 3339 or a Unix time, or --fields time=NAME if the time is elsewhere", json.badTime)
	case json.timeless > 0:
		return errors.New("its JSON does not have the time where it was looked for; --fields time=NAME says where it is")
	case json.others > 0:
		return errors.New("its JSON lines have a time, but no method, path or status; --fields method=NAME,path=NAME,status=NAME says where they are")
	}
	if l.onlyJSON {
		return fmt.Errorf("none of its %d lines is a request; want JSON lines, in which --fields says where the fields are", l.Bad)
	}
	return fmt.Errorf("none of its %d lines is a request; want %s", l.Bad, formats)
}
