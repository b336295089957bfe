package accesslog

import (
	"bytes"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Record is one request as a log has it. The slices are valid until the next line is parsed.
type Record struct {
	At      int64  // Unix nanoseconds
	Took    int64  // nanoseconds; 0: not in the log
	Status  int    // 0: not in the log
	Key     []byte // key of the fields' key=PATH; nil if it is not in the log, as all fields below
	Client  []byte
	User    []byte
	Host    []byte
	Method  []byte
	Path    []byte
	Referer []byte
	Agent   []byte
	Pattern string // pattern of the route; set by the plan
	Coarse  bool   // At is the second, and the request came at some time in it

	Early bool          // At is in the first years after 1970, as if the log had a duration in place of a time
	List  bool          // the log has a list of addresses; Client is the first
	Unit  time.Duration // the unit in which Took was read if it was guessed; otherwise 0
}

// set sets the field of a column, and reports whether the word can be of that column. An optional value that cannot be read
// counts as missing.
func (r *Record) set(column string, w []byte) (ok bool) {
	text, inQuotes := unquote(w)
	column, quoted := strings.CutSuffix(column, `"`)
	if quoted && !inQuotes {
		return false
	}
	value := known(text)
	switch column {
	case "-":
	case "time", "created": // when the response was sent, and when the request came
		if isTime(text) {
			t, _ := readTime(text)
			r.At = t.UnixNano()
			return true
		}
		return column == "created"
	case "client:port", "address:port":
		port := bytes.LastIndexByte(text, ':')
		r.Client = bytes.Trim(text[:max(port, 0)], "[]")
		_, err := netip.ParseAddr(string(r.Client))
		return port >= 0 && (err == nil || column == "client:port")
	case "number", "number?":
		_, ok := digits(text)
		return ok || column == "number?" && value == nil
	case "operation": // REST.GET.OBJECT
		return bytes.Count(text, []byte(".")) >= 2
	case "request":
		r.setRequest(text)
	case "seconds": // of several times, the sum
		r.Took += seconds(text) // -1: it did not come so far
	case "ms":
		ms, _ := digits(text)
		r.Took = int64(ms) * int64(time.Millisecond)
	case "timers": // the last is the sum; with "option logasap" it has a + and is too short; -1: unknown
		ms, _ := digits(bytes.TrimPrefix(text[bytes.LastIndexByte(text, '/')+1:], []byte("+")))
		r.Took = int64(ms) * int64(time.Millisecond)
		return bytes.Count(text, []byte("/")) == 4
	case "time-taken": // CloudFront: seconds, always with a fraction; IIS: milliseconds
		r.Took, r.Unit = seconds(text), time.Second
		if bytes.IndexByte(text, '.') < 0 {
			r.Took, r.Unit = r.Took/1000, time.Millisecond
		}
	case "at": // more exact than the time in brackets
		text, ok = bytes.CutPrefix(text, []byte("at="))
		if at := seconds(text); ok && at-r.At < int64(time.Second) && at >= r.At {
			r.At = at
		}
		return ok
	case "took":
		text, ok = bytes.CutPrefix(text, []byte("took="))
		if ok {
			r.Took = seconds(text)
		}
		return ok
	case "status":
		r.Status, _ = digits(text) // "-", -1 or 000: there was no answer
	case "remote":
		if r.Client == nil {
			r.Client = value
		}
	case "host": // if it is not there, that of the request stays
		if value != nil {
			r.Host = value
		}
	case "host?":
		if r.Host == nil {
			r.Host = value
		}
	default:
		*r.text(column) = value
	}
	return true
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
	default:
		return &r.Agent
	}
}

// pickClient takes the first address of a list, as X-Forwarded-For has it.
func (r *Record) pickClient() {
	if !bytes.ContainsAny(r.Client, ", ") {
		return
	}
	for part := range bytes.FieldsFuncSeq(r.Client, func(c rune) bool { return c == ',' || c == ' ' }) {
		if isAddress(part) {
			r.Client, r.List = part, true
			return
		}
	}
}

// isRequest reports whether a text is a request line.
func isRequest(b []byte) bool {
	method, target, _ := bytes.Cut(b, []byte(" "))
	return len(target) > 0 && len(bytes.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-")) == 0 && len(method) > 0
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

// maxTime is how many seconds a time may be before or after 1970, which keeps differences of times in an int64.
const maxTime = 1 << 32

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
	return t, err == nil && max(t.Unix(), -t.Unix()) < maxTime
}

// isTime reports whether a word is a time as RFC 3339 has it.
func isTime(w []byte) bool {
	_, ok := readTime(w)
	return ok && w[4] == '-'
}

// known returns nil for "-", which stands for a missing value in logs.
func known(b []byte) []byte {
	if len(b) == 0 || len(b) == 1 && b[0] == '-' {
		return nil
	}
	return b
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

// seconds reads a number of seconds, which may have a fraction, as nanoseconds; 0, if it is not a number.
func seconds(b []byte) int64 {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(v >= 0 && v < math.MaxInt64/1e9) {
		return 0
	}
	whole, part := math.Modf(v)
	return int64(whole)*1e9 + int64(math.Round(part*1e9))
}
