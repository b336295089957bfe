package accesslog

import (
	"bytes"
	"time"
)

// w3c parses W3C's extended log format, of CloudFront (columns are separated by tabs) and of IIS (by spaces). A line
// "#Fields: date time c-ip ..." says what the columns are.
type w3c struct {
	columns []string
}

func (w *w3c) parse(line []byte, r *Record) bool {
	*r = Record{}
	if names, ok := bytes.CutPrefix(line, []byte("#Fields:")); ok {
		w.columns = w.columns[:0]
		for name := range bytes.FieldsSeq(names) {
			w.columns = append(w.columns, string(name))
		}
	}
	if len(w.columns) == 0 || bytes.HasPrefix(line, []byte("#")) {
		return false
	}
	separator := []byte(" ")
	if bytes.IndexByte(line, '\t') >= 0 {
		separator = []byte("\t")
	}
	var stamp []byte
	column := 0
	for value := range bytes.SplitSeq(line, separator) {
		if column == len(w.columns) {
			return false
		}
		if v := known(value); v != nil {
			switch name := w.columns[column]; name {
			case "date", "time":
				stamp = append(append(stamp, v...), ' ')
			default:
				if !r.setColumn(name, v) {
					return false
				}
			}
		}
		column++
	}
	t, err := time.Parse(time.DateTime+" ", string(stamp))
	r.At = t.UnixNano()
	return err == nil && column == len(w.columns)
}

// setColumn sets what a column is about, and reports false if it cannot be right.
func (r *Record) setColumn(name string, v []byte) (ok bool) {
	switch name {
	case "time-taken": // CloudFront: seconds, always with a fraction; IIS: milliseconds
		r.Took, ok = seconds(v)
		if bytes.IndexByte(v, '.') < 0 {
			r.Took /= 1000
		}
		return ok
	case "sc-status":
		r.Status, ok = digits(v)
		return ok || string(v) == "000" // CloudFront: the client left
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
	return true
}
