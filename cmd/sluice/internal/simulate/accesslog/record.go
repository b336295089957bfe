package accesslog

import (
	"bytes"
	"strconv"
	"time"
)

// Record is one request as a log has it. The slices are valid until the next line is parsed.
type Record struct {
	At      int64  // Unix nanoseconds
	Took    int64  // nanoseconds; 0: not in the log
	Status  int    // 0: not in the log
	Key     []byte // of the fields' key=PATH; nil if it is not in the log, as all fields below
	Client  []byte
	User    []byte
	Host    []byte
	Method  []byte
	Path    []byte
	Referer []byte
	Agent   []byte
	Cost    []byte // that a backend has reported; only of JSON
	Pattern string // of the route; set by the plan
	Coarse  bool   // At is the second, and the request came at some time in it

	List   bool          // the log has a list of addresses; Client is the first
	Unread bool          // the log has a duration that cannot be read
	Unit   time.Duration // the unit in which Took was read if it was guessed; otherwise 0
}

// text returns the field of a name, as [New] takes it.
func (r *Record) text(name string) *[]byte {
	switch name {
	case "key":
		return &r.Key
	case "client":
		return &r.Client
	case "user":
		return &r.User
	case "host":
		return &r.Host
	case "method":
		return &r.Method
	case "path":
		return &r.Path
	case "referer":
		return &r.Referer
	case "agent":
		return &r.Agent
	default:
		return &r.Cost
	}
}

// pickClient takes the first address of a list, as X-Forwarded-For has it.
func (r *Record) pickClient() {
	if !bytes.ContainsAny(r.Client, ", ") {
		return
	}
	r.List = true
	for part := range bytes.FieldsFuncSeq(r.Client, func(c rune) bool { return c == ',' || c == ' ' }) {
		if isAddress(part) {
			r.Client = part
			return
		}
	}
}

// setRequest reads a request line: METHOD TARGET VERSION. An absolute target has the host too.
func (r *Record) setRequest(line []byte) {
	method, target, _ := bytes.Cut(line, []byte(" "))
	if last := bytes.LastIndexByte(target, ' '); last >= 0 {
		target = target[:last]
	}
	r.Method, r.Path = known(method), target
	scheme, rest, absolute := bytes.Cut(target, []byte("://"))
	if !absolute || bytes.ContainsAny(scheme, "/?") {
		return
	}
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	r.Host, r.Path = rest[:end], rest[end:]
	switch string(scheme) {
	case "https", "wss":
		r.Host = bytes.TrimSuffix(r.Host, []byte(":443"))
	default:
		r.Host = bytes.TrimSuffix(r.Host, []byte(":80"))
	}
	if len(r.Path) == 0 {
		r.Path = []byte("/")
	}
}

// readTime reads a time in any format of logs. A time without a zone is in UTC, except in HAProxy's format, where it is local.
func readTime(b []byte) (t time.Time, ok bool) {
	if len(b) < len(time.DateTime) || len(b) > 40 {
		return t, false
	}
	layout, zone := time.RFC3339Nano, time.UTC
	switch {
	case b[2] == '/' && len(b) == len("02/Jan/2006:15:04:05.000"):
		layout, zone = "02/Jan/2006:15:04:05.000", time.Local
	case b[2] == '/':
		layout = "02/Jan/2006:15:04:05 -0700"
	case b[4] == '/':
		layout = "2006/01/02 15:04:05"
	case b[10] == ' ':
		layout = time.DateTime
	case b[len(b)-5] == '+' || b[len(b)-5] == '-':
		layout = "2006-01-02T15:04:05Z0700" // without the colon in the zone
	}
	t, err := time.ParseInLocation(layout, string(b), zone)
	return t, err == nil
}

// known returns nil for "-", which stands for a missing value in logs.
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

// quoted returns the text in the first pair of quotes, and what follows it.
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
