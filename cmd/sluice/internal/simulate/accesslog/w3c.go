package accesslog

import (
	"bytes"
	"time"
)

// w3c parses W3C's extended log format, of CloudFront (columns are separated by tabs) and of IIS (by spaces). A line
// "#Fields: date time c-ip ..." says what the columns are.
type w3c struct {
	columns []string
	date    string // that the latest #Date says, for logs without a column date
}

func (w *w3c) parse(line []byte, r *Record) bool {
	*r = Record{}
	if names, ok := bytes.CutPrefix(line, []byte("#Fields:")); ok {
		w.columns = w.columns[:0]
		for name := range bytes.FieldsSeq(names) {
			w.columns = append(w.columns, string(name))
		}
	}
	if date, ok := bytes.CutPrefix(line, []byte("#Date:")); ok {
		first, _ := word(bytes.TrimSpace(date))
		w.date = string(first)
	}
	if len(w.columns) == 0 || bytes.HasPrefix(line, []byte("#")) {
		return false
	}
	values := w.split(line)
	if len(values) != len(w.columns) {
		return false
	}
	date, clock := w.date, ""
	for i, value := range values {
		if v := known(value); v != nil {
			switch name := w.columns[i]; name {
			case "date":
				date = string(v)
			case "time":
				clock = string(v)
			default:
				r.setColumn(name, v)
			}
		}
	}
	t, ok := readTime([]byte(date + " " + clock))
	r.At = t.UnixNano()
	return ok
}

// split returns the values of a line, which may be in quotes.
func (w *w3c) split(line []byte) [][]byte {
	if bytes.IndexByte(line, '\t') >= 0 {
		return bytes.Split(line, []byte("\t"))
	}
	if bytes.IndexByte(line, '"') >= 0 {
		if values := splitQuoted(line, make([][]byte, 0, len(w.columns))); len(values) == len(w.columns) {
			for i, v := range values {
				values[i] = bytes.Trim(v, `"`)
			}
			return values
		}
	}
	return bytes.Split(line, []byte(" "))
}

// w3cColumns say what the columns are about.
var w3cColumns = map[string]string{
	"c-ip": "client", "cs-username": "user", "sc-status": "status", "cs-method": "method", "cs-uri-stem": "path",
	"cs(User-Agent)": "agent", "cs(Referer)": "referer",
	"x-host-header": "host", // what the client asked for, where cs(Host) is CloudFront's name
}

func (r *Record) setColumn(name string, v []byte) {
	switch name {
	case "time-taken": // CloudFront: seconds, always with a fraction; IIS: milliseconds
		ns, ok := seconds(v)
		r.Unit = time.Second
		if bytes.IndexByte(v, '.') < 0 {
			r.Unit = time.Millisecond
			ns /= 1000
		}
		r.Took, r.Unread = ns, !ok
	case "cs-host", "cs(Host)":
		if r.Host == nil {
			r.Host = v
		}
	default:
		if column := w3cColumns[name]; column != "" {
			r.set(column, v)
		}
	}
}
