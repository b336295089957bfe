package simulate

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// record is one request as a log tells of it. The slices are valid until the next line is parsed.
type record struct {
	at      int64 // Unix nanoseconds
	took    int64 // nanoseconds; 0: not told
	status  int   // 0: not told
	key     []byte
	client  []byte
	user    []byte
	host    []byte
	method  []byte
	path    []byte
	referer []byte
	agent   []byte
	pattern string // of the route; the plan sets it
}

// parser reads a line; false: it cannot be read.
type parser interface {
	parse(line []byte, r *record) bool
}

// fields are the names that --fields gives to what a line of JSON has, and where that stands if nothing else is said.
var fields = map[string]string{
	"time": "time", "duration": "duration", "status": "status", "key": "key", "client": "client", "user": "user",
	"host": "host", "method": "method", "path": "path", "referer": "referer", "agent": "agent",
}

// parseFields reads time=ts,key=client,duration=took; a dot leads into an object.
func parseFields(text string) (*jsonLines, error) {
	paths := maps.Clone(fields)
	if text != "" {
		for pair := range strings.SplitSeq(text, ",") {
			name, path, ok := strings.Cut(pair, "=")
			if _, known := fields[name]; !ok || !known || path == "" {
				return nil, cli.Usage("--fields %q, want pairs such as time=ts,key=client,duration=took; %q is none", text, pair)
			}
			paths[name] = path
		}
	}
	j := new(jsonLines)
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		j.names = append(j.names, name)
		j.paths = append(j.paths, paths[name])
	}
	return j, nil
}

// either reads a log whose first line says whether it is JSON.
type either struct {
	json   *jsonLines
	chosen parser
}

func (e *either) parse(line []byte, r *record) bool {
	if e.chosen == nil {
		e.chosen = &accessLog{}
		if line[0] == '{' {
			e.chosen = e.json
		}
	}
	return e.chosen.parse(line, r)
}

// accessLog reads the common and the combined format:
//
//	host ident user [02/Jan/2006:15:04:05 -0700] "METHOD /path HTTP/1.1" status bytes "referer" "agent"
type accessLog struct {
	minute []byte // the text up to the minute that was read last, and the zone
	zone   []byte
	unix   int64 // of that minute
}

func (a *accessLog) parse(line []byte, r *record) bool {
	*r = record{}
	var ok bool
	if r.client, line, ok = bytes.Cut(line, []byte(" ")); !ok || len(r.client) == 0 {
		return false
	}
	if _, line, ok = bytes.Cut(line, []byte(" ")); !ok {
		return false
	}
	open := bytes.IndexByte(line, '[')
	end := bytes.IndexByte(line, ']')
	if open < 1 || end < open {
		return false
	}
	r.user = bytes.TrimSpace(line[:open])
	if r.at, ok = a.time(line[open+1 : end]); !ok {
		return false
	}
	request, rest, ok := quoted(line[end+1:])
	if !ok {
		return false
	}
	r.method, request, _ = bytes.Cut(request, []byte(" "))
	if last := bytes.LastIndexByte(request, ' '); last >= 0 {
		request = request[:last] // the version
	}
	r.path = request
	status, rest, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	if r.status, ok = digits(status); !ok {
		return false
	}
	_, rest, _ = bytes.Cut(rest, []byte(" ")) // bytes
	if referer, more, ok := quoted(rest); ok {
		r.referer = referer
		if r.agent, _, ok = quoted(more); !ok {
			r.agent = nil
		}
	}
	return true
}

// quoted returns what stands in quotes at the beginning, and what follows.
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

const logTime = "02/Jan/2006:15:04:05 -0700"

// time reads a time of the log. Most lines are of the same minute as the one before.
func (a *accessLog) time(b []byte) (int64, bool) {
	const seconds, zone = len("02/Jan/2006:15:04:"), len("02/Jan/2006:15:04:05 ")
	if len(b) != len(logTime) {
		return 0, false
	}
	if a.minute == nil || !bytes.Equal(a.minute, b[:seconds]) || !bytes.Equal(a.zone, b[zone:]) {
		t, err := time.Parse(logTime, string(b))
		if err != nil {
			return 0, false
		}
		a.minute = append(a.minute[:0], b[:seconds]...)
		a.zone = append(a.zone[:0], b[zone:]...)
		a.unix = t.Unix() - int64(t.Second())
	}
	s, ok := digits(b[seconds : seconds+2])
	if !ok || s > 60 {
		return 0, false
	}
	return (a.unix + int64(s)) * int64(time.Second), true
}

// jsonLines reads objects, a line each. paths are those of --fields.
type jsonLines struct {
	names []string
	paths []string
}

func (j *jsonLines) parse(line []byte, r *record) bool {
	*r = record{}
	if !gjson.ValidBytes(line) {
		return false
	}
	timed := false
	for i, path := range j.paths {
		v := gjson.GetBytes(line, path)
		if !v.Exists() {
			continue
		}
		text := []byte(v.String())
		ok := true
		switch j.names[i] {
		case "time":
			r.at, ok = jsonTime(v)
			timed = ok
		case "duration":
			r.took, ok = jsonDuration(v)
		case "status":
			r.status = int(v.Int())
		case "key":
			r.key = text
		case "client":
			r.client = text
		case "user":
			r.user = text
		case "host":
			r.host = text
		case "method":
			r.method = text
		case "path":
			r.path = text
		case "referer":
			r.referer = text
		case "agent":
			r.agent = text
		}
		if !ok {
			return false
		}
	}
	return timed
}

// jsonTime reads a time: RFC 3339, that of access logs, or Unix seconds or milliseconds.
func jsonTime(v gjson.Result) (int64, bool) {
	if v.Type == gjson.Number {
		return unixTime(v.Num)
	}
	text := v.String()
	for _, layout := range []string{time.RFC3339Nano, logTime, "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixNano(), true
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false
	}
	return unixTime(n)
}

const (
	millis     = 1e11 // what is larger is no number of seconds before the year 5138
	mostMillis = 9e15
)

func unixTime(n float64) (int64, bool) {
	if math.IsNaN(n) || math.Abs(n) > mostMillis {
		return 0, false
	}
	if math.Abs(n) >= millis {
		n /= 1000
	}
	if math.Abs(n) > math.MaxInt64/1e9-1 {
		return 0, false
	}
	whole, part := math.Modf(n)
	return int64(whole)*int64(time.Second) + int64(math.Round(part*1e9)), true
}

// jsonDuration reads a time that something took: seconds, or as 250ms.
func jsonDuration(v gjson.Result) (int64, bool) {
	seconds := v.Num
	if v.Type != gjson.Number {
		text := v.String()
		if d, err := time.ParseDuration(text); err == nil {
			return int64(d), d >= 0
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, false
		}
		seconds = n
	}
	if !(seconds >= 0 && seconds < 1e9) {
		return 0, false
	}
	return int64(math.Round(seconds * 1e9)), true
}

// keyField reports whether --fields says where the key stands.
func keyField(text string) bool {
	for pair := range strings.SplitSeq(text, ",") {
		if strings.HasPrefix(pair, "key=") {
			return true
		}
	}
	return false
}
