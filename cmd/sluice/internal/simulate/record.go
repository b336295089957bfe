package simulate

import (
	"bytes"
	"strconv"
)

// record is one request as a log has it. The slices are valid until the next line is parsed.
type record struct {
	at      int64  // Unix nanoseconds
	took    int64  // nanoseconds; 0: not in the log
	status  int    // 0: not in the log
	key     []byte // of --fields key=PATH; nil, as all that follow: not in the log
	client  []byte
	user    []byte
	host    []byte
	method  []byte
	path    []byte
	referer []byte
	agent   []byte
	pattern string // of the route; the plan sets it
}

// setRequest reads a request line: METHOD TARGET VERSION. An absolute target has the host too.
func (r *record) setRequest(line []byte) {
	method, target, _ := bytes.Cut(line, []byte(" "))
	if last := bytes.LastIndexByte(target, ' '); last >= 0 {
		target = target[:last]
	}
	r.method, r.path = known(method), target
	scheme, rest, absolute := bytes.Cut(target, []byte("://"))
	if !absolute || bytes.ContainsAny(scheme, "/?") {
		return
	}
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	r.host, r.path = rest[:end], rest[end:]
	switch string(scheme) {
	case "https", "wss":
		r.host = bytes.TrimSuffix(r.host, []byte(":443"))
	default:
		r.host = bytes.TrimSuffix(r.host, []byte(":80"))
	}
	if len(r.path) == 0 {
		r.path = []byte("/")
	}
}

// known returns nil for the "-" that logs have in place of nothing.
func known(b []byte) []byte {
	if len(b) == 0 || len(b) == 1 && b[0] == '-' {
		return nil
	}
	return b
}

// word returns what comes before the first space, and what follows the spaces.
func word(b []byte) (first, rest []byte) {
	first, rest, _ = bytes.Cut(b, []byte(" "))
	return first, bytes.TrimLeft(rest, " ")
}

// quoted returns what stands in the first pair of quotes, and what follows it.
func quoted(b []byte) (inside, rest []byte, ok bool) {
	open := bytes.IndexByte(b, '"')
	if open < 0 {
		return nil, b, false
	}
	for i := open + 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return b[open+1 : i], b[i+1:], true
		}
	}
	return nil, b, false
}

// digits reads a number of at most nine digits.
func digits(b []byte) (n int, ok bool) {
	if len(b) == 0 || len(b) > 9 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// seconds reads a number of seconds, which may have a fraction, as nanoseconds.
func seconds(b []byte) (ns int64, ok bool) {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(v >= 0 && v < 1e9) {
		return 0, false
	}
	return int64(v*1e9 + 0.5), true
}
