package accesslog

// format parses the lines of one log. It may remember what earlier lines said.
type format interface {
	// parse sets r and reports whether the line is a request.
	parse(line []byte, r *Record) bool
}

// formats names them, for messages.
const formats = "the common or combined format, JSON lines with a time, or a log of HAProxy (option httplog), AWS ALB, CloudFront or IIS"

// detector parses a log in the format of the first line that is a request in any of them.
type detector struct {
	json       *jsonLines
	candidates []format
	found      format
}

func newDetector(json *jsonLines) *detector {
	return &detector{json: json, candidates: []format{json, &w3c{}, balancer{}, haproxy{}, accessLog{}}}
}

func (d *detector) parse(line []byte, r *Record) bool {
	if d.found != nil {
		return d.found.parse(line, r)
	}
	for _, f := range d.candidates {
		if f.parse(line, r) {
			d.found = f
			return true
		}
	}
	return false
}
