package simulate

import (
	"bytes"
	"time"
)

// w3c parses W3C's extended log format, of CloudFront (columns are separated by tabs) and of IIS (by spaces). A line
// "#Fields: date time c-ip ..." says what the columns are.
type w3c struct {
	columns []string
}

func (w *w3c) parse(line []byte, r *record) bool {
	*r = record{}
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
	r.at = t.UnixNano()
	return err == nil && column == len(w.columns)
}

// setColumn sets what a column is about, and reports false if it cannot be right.
func (r *record) setColumn(name string, v []byte) (ok bool) {
	switch name {
	case "time-taken": // CloudFront: seconds, always with a fraction; IIS: milliseconds
		r.took, ok = seconds(v)
		if bytes.IndexByte(v, '.') < 0 {
			r.took /= 1000
		}
		return ok
	case "sc-status":
		r.status, ok = digits(v)
		return ok || string(v) == "000" // CloudFront: the client left
	case "c-ip":
		r.client = v
	case "cs-username":
		r.user = v
	case "cs-host", "cs(Host)":
		if r.host == nil {
			r.host = v
		}
	case "x-host-header": // what the client asked for, where cs(Host) is CloudFront's name
		r.host = v
	case "cs-method":
		r.method = v
	case "cs-uri-stem":
		r.path = v
	case "cs(User-Agent)":
		r.agent = v
	case "cs(Referer)":
		r.referer = v
	}
	return true
}
