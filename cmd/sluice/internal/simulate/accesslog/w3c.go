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
	t, err := time.Parse(time.DateTime, date+" "+clock)
	r.At = t.UnixNano()
	return err == nil
}

// split returns the values of a line, which may be in quotes.
func (w *w3c) split(line []byte) [][]byte {
	if bytes.IndexByte(line, '\t') >= 0 {
		return bytes.Split(line, []byte("\t"))
	}
	if bytes.IndexByte(line, '"') >= 0 {
		if values := splitQuoted(line, make([][]byte, 0, len(w.columns))); len(values) == len(w.columns) {
			return values
		}
	}
	return bytes.Split(line, []byte(" "))
}

// setColumn sets what a column is about.
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
	case "sc-status":
		r.Status, _ = digits(v) // CloudFront: 000 if the client left
	case "c-ip":
		r.Client = v
	case "cs-username":
		r.User = v
	case "cs-host", "cs(Host)":
		if r.Host == nil {
			r.Host = v
		}
	case "x-host-header": // what the client asked for, where cs(Host) is CloudFront's name
		r.Host = v
	case "cs-method":
		r.Method = v
	case "cs-uri-stem":
		r.Path = v
	case "cs(User-Agent)":
		r.Agent = v
	case "cs(Referer)":
		r.Referer = v
	}
}
