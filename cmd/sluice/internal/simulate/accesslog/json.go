package accesslog

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// field is a part of a record that a JSON object may have.
type field uint8

const (
	timeField field = iota
	durationField
	statusField
	keyField
	clientField
	userField
	hostField
	methodField
	pathField
	refererField
	agentField
	costField
	requestField
	fieldCount
)

// fieldNames are those that [New] takes.
var fieldNames = [fieldCount]string{"time", "duration", "status", "key", "client", "user", "host", "method", "path", "referer", "agent", "cost", "request"}

// source says where a field may be found.
type source struct {
	field field
	rank  int // of several sources of a field that an object has, the least counts
	unit  time.Duration

	guessed bool // the unit is
}

// knownPaths are where the fields are if the fields do not say: under their own names, or where Traefik, Caddy, Envoy, pino and
// nginx (under the names of its variables) have them. The first that an object has counts.
var knownPaths = [fieldCount]string{
	timeField:     "StartUTC start_time time ts timestamp @timestamp msec time_iso8601 time_local",
	durationField: "duration Duration:ns request_time responseTime:ms",
	statusField:   "status DownstreamStatus response_code res.statusCode",
	keyField:      "key",
	clientField:   "client ClientHost request.client_ip request.remote_ip downstream_remote_address remote_addr req.remoteAddress",
	userField:     "user ClientUsername user_id remote_user",
	hostField:     "host RequestHost request.host http_host authority",
	methodField:   "method RequestMethod request.method request_method req.method",
	pathField:     "path RequestPath request.uri request_uri req.url",
	refererField:  "referer request_Referer http_referer",
	agentField:    "agent request_User-Agent http_user_agent user_agent",
	costField:     "cost",
	requestField:  "request",
}

// ofEnvoy are names that show an object to be of Envoy, whose duration is in milliseconds.
var ofEnvoy = map[string]bool{
	"start_time": true, "response_code": true, "response_flags": true, "downstream_remote_address": true,
	"upstream_service_time": true, "upstream_cluster": true,
}

// ofPrograms are names that lines have which a program logs about itself.
var ofPrograms = map[string]bool{"level": true, "msg": true, "message": true, "severity": true, "event": true}

// jsonLines parses lines that are JSON objects, in one pass but for paths that are more than names.
type jsonLines struct {
	tree  *member
	deep  map[string][]source // by gjson path
	named [fieldCount]bool    // the user says where the field is

	timeless, others int    // objects without a time, and with a time that are no requests
	badTime          string // a time that cannot be read
}

// member is what a name in an object is: sources, or an object that has them.
type member struct {
	sources []source
	inside  map[string]*member
}

// newJSONLines reads time=ts,key=client.id,duration=took:ms.
func newJSONLines(text string) (*jsonLines, error) {
	paths := knownPaths
	j := &jsonLines{tree: new(member), deep: make(map[string][]source)}
	if text != "" {
		for pair := range strings.SplitSeq(text, ",") {
			name, path, ok := strings.Cut(pair, "=")
			f := fieldOf(name)
			if !ok || path == "" || strings.Contains(path, " ") {
				return nil, fmt.Errorf("%q is not a list such as time=ts,key=client,duration=took:ms: %q is not NAME=PATH", text, pair)
			}
			if f == fieldCount {
				return nil, fmt.Errorf("%q is not a field; use %s", name, strings.Join(fieldNames[:], ", "))
			}
			paths[f], j.named[f] = path, true
			for known := range strings.FieldsSeq(knownPaths[f]) {
				if strings.HasPrefix(known, path+":") {
					paths[f] = known // the unit is known too
				}
			}
		}
	}
	for f, list := range paths {
		for rank, path := range strings.Fields(list) {
			j.add(path, source{field: field(f), rank: rank, unit: time.Second, guessed: path != "request_time"})
		}
	}
	return j, nil
}

func fieldOf(name string) field {
	for f, n := range fieldNames {
		if n == name {
			return field(f)
		}
	}
	return fieldCount
}

// units may follow the path of a duration.
var units = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond}

func (j *jsonLines) add(path string, s source) {
	if i := strings.LastIndexByte(path, ':'); i > 0 && s.field == durationField {
		if unit, ok := units[path[i+1:]]; ok {
			path, s.unit, s.guessed = path[:i], unit, false
		}
	}
	if !isNames(path) {
		j.deep[path] = append(j.deep[path], s)
		return
	}
	m := j.tree
	for name := range strings.SplitSeq(path, ".") {
		if m.inside == nil {
			m.inside = make(map[string]*member)
		}
		if m.inside[name] == nil {
			m.inside[name] = new(member)
		}
		m = m.inside[name]
	}
	m.sources = append(m.sources, s)
}

// isNames reports whether a path of gjson is nothing but names with dots between them.
func isNames(path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		if _, err := strconv.Atoi(name); err == nil || name == "" { // an index into an array
			return false
		}
		for i, c := range name {
			letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
			if !letter && c != '_' && c != '-' && (c != '@' || i > 0 || name != "@timestamp") {
				return false
			}
		}
	}
	return true
}

func (j *jsonLines) parse(line []byte, r *Record) bool {
	*r = Record{}
	if len(line) == 0 || line[len(line)-1] != '}' || !gjson.ValidBytes(line) {
		return false
	}
	whole := gjson.ParseBytes(line)
	if !whole.IsObject() {
		return false
	}
	p := objectParser{r: r}
	p.walk(whole, j.tree)
	for path, sources := range j.deep {
		p.read(sources, whole.Get(path))
	}
	switch {
	case p.badTime != "":
		j.badTime = p.badTime
		return false
	case p.seen[timeField] == 0:
		j.timeless++
		return false
	case !j.isRequest(&p):
		j.others++
		return false
	}
	if r.Unit != 0 && p.envoy {
		r.Took, r.Unit = r.Took/int64(time.Second/time.Millisecond), time.Millisecond
	}
	return true
}

// isRequest reports whether an object with a time is a request, and not what a program logs about itself: it has a method, a
// path or a status, or what the user has named, or nothing besides the fields.
func (j *jsonLines) isRequest(p *objectParser) bool {
	signs := 0
	for _, f := range []field{methodField, pathField, statusField, requestField} {
		if p.seen[f] > 0 {
			signs++
		}
	}
	for f := range fieldCount {
		if f != timeField && j.named[f] && p.seen[f] > 0 {
			return true
		}
	}
	if p.program {
		return signs > 1 || p.r.Method != nil
	}
	return signs > 0 || j.named[timeField] || !p.unknown
}

// objectParser reads one object.
type objectParser struct {
	r       *Record
	seen    [fieldCount]int // 1 and the rank of what was read; 0: nothing
	badTime string          // the time, if it cannot be read
	unknown bool            // there is a member that is no field
	program bool            // there is one of ofPrograms
	envoy   bool            // there is one of ofEnvoy
}

func (p *objectParser) walk(object gjson.Result, m *member) {
	object.ForEach(func(name, v gjson.Result) bool {
		next := m.inside[name.Str]
		p.program = p.program || ofPrograms[name.Str]
		p.envoy = p.envoy || ofEnvoy[name.Str]
		p.unknown = p.unknown || next == nil
		if next != nil {
			if len(next.sources) > 0 {
				p.read(next.sources, v)
			}
			if next.inside != nil && v.IsObject() {
				p.walk(v, next)
			}
		}
		return p.badTime == ""
	})
}

// read reads a value, unless a better source has been read, or the same: of a name that an object has twice the first
// counts.
func (p *objectParser) read(sources []source, v gjson.Result) {
	if v.Type == gjson.Null { // as if it were not there
		return
	}
	for _, s := range sources {
		if seen := p.seen[s.field]; seen == 0 || seen > s.rank+1 {
			if s.field == requestField && v.Type != gjson.String {
				continue // Caddy's is an object
			}
			p.seen[s.field] = s.rank + 1
			p.set(s, v)
		}
	}
}

// set sets a field. A value that cannot be read is as if it were not there, but for the time.
func (p *objectParser) set(s source, v gjson.Result) {
	r := p.r
	switch s.field {
	case timeField:
		at, ok := jsonTime(v)
		if r.At = at; !ok {
			p.badTime = v.String()
		}
	case durationField:
		if known([]byte(v.String())) == nil {
			return // nginx has "-" or "" where there is none
		}
		r.Took, r.Unit, r.Unread = 0, 0, false
		ns, plain, ok := jsonDuration(v, s.unit)
		switch {
		case !ok:
			r.Unread = true
		case s.guessed && plain:
			r.Took, r.Unit = ns, s.unit
		default:
			r.Took = ns
		}
	case statusField:
		r.Status = max(int(v.Int()), 0)
		if v.Type == gjson.String && r.Status == 0 || r.Status > 999 {
			r.Status = 0
			p.seen[statusField] = 0 // "ok" is about something else
		}
	case requestField:
		if line := []byte(v.String()); r.Method == nil && r.Path == nil && isRequest(line) {
			r.setRequest(line)
		}
	default:
		*r.text(fieldNames[s.field]) = known([]byte(v.String()))
	}
}

// jsonTime reads a time: RFC 3339, that of access logs, or a Unix time.
func jsonTime(v gjson.Result) (int64, bool) {
	if v.Type == gjson.Number {
		return unixTime(v.Num)
	}
	text := v.String()
	for _, layout := range []string{time.RFC3339Nano, isoTime, logTime, time.DateTime, "2006/01/02 15:04:05"} {
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

// unixTime returns the nanoseconds of a Unix time in seconds, milliseconds, microseconds or nanoseconds. The size tells
// which: as seconds, 1e11 is in the year 5138; as milliseconds, in 1973.
func unixTime(n float64) (int64, bool) {
	unit := float64(time.Second)
	for limit := 1e11; math.Abs(n) >= limit && unit > 1; limit *= 1000 {
		unit /= 1000
	}
	if !(math.Abs(n) < math.MaxInt64/unit) {
		return 0, false
	}
	whole, part := math.Modf(n)
	return int64(whole)*int64(unit) + int64(math.Round(part*unit)), true
}

// jsonDuration reads a duration: a number of the unit, or text such as 250ms. plain says that the text has no unit.
func jsonDuration(v gjson.Result, unit time.Duration) (ns int64, plain, ok bool) {
	n := v.Num
	if v.Type != gjson.Number {
		text := v.String()
		if d, err := time.ParseDuration(text); err == nil && text != "0" {
			return int64(d), false, d >= 0
		}
		var err error
		if n, err = strconv.ParseFloat(text, 64); err != nil {
			return 0, false, false
		}
	}
	n *= float64(unit)
	if !(n >= 0 && n < 1e18) {
		return 0, false, false
	}
	return int64(math.Round(n)), true, true
}
