package accesslog

// format parses the lines of one log. It may depend on earlier lines, such as those that name the columns.
type format interface {
	// parse sets r and reports whether the line is a request.
	parse(line []byte, r *Record) bool
}

// formats are the names of all formats, for messages.
const formats = "the common or combined format, JSON lines with a time, or a log of Envoy, HAProxy (option httplog), AWS ALB, CloudFront, S3 or IIS"

// detector parses a log in the format of the first line that is a request in any format. The lines may be wrapped by a
// collector of logs.
type detector struct {
	json       *jsonLines
	candidates []format
	found      format
	wrapped    bool // the latest request had to be unwrapped
}

func newDetector(json *jsonLines, others ...format) *detector {
	return &detector{json: json, candidates: append([]format{json}, others...)}
}

// textFormats returns the formats that are not JSON.
func textFormats() []format {
	return append(append([]format{&w3c{}}, layouts()...), accessLog{})
}

func (d *detector) parse(line []byte, r *Record) bool {
	if d.found != nil && !d.wrapped {
		if d.parseBare(line, r) {
			return true
		}
		d.wrapped = d.inside(line, r)
		return d.wrapped
	}
	// Unwrap first: otherwise the common format would take a word of the wrapper for the client.
	if d.inside(line, r) {
		d.wrapped = true
		return true
	}
	ok := d.parseBare(line, r)
	d.wrapped = d.wrapped && !ok
	return ok
}

// inside unwraps the line, several times if necessary, and parses it.
func (d *detector) inside(line []byte, r *Record) bool {
	const most = 3
	for range most {
		if line = unwrap(line); line == nil {
			return false
		}
		if d.parseBare(line, r) {
			return true
		}
	}
	return false
}

func (d *detector) parseBare(line []byte, r *Record) bool {
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
