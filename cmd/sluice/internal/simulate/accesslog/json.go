package accesslog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// fields are the parts of a record that a JSON object may have, under the names that [New] takes, and the paths where they are if
// the user does not say: the names of Traefik, Caddy, Envoy, pino and nginx's variables. The first that an object has counts.
var fields = [...]struct{ name, paths string }{
	{"time", "StartUTC start_time time ts timestamp @timestamp msec time_iso8601 time_local"},
	{"duration", "duration Duration:ns request_time responseTime:ms"},
	{"status", "status DownstreamStatus response_code res.statusCode"},
	{"key", "key"},
	{"client", "client ClientHost request.client_ip request.remote_ip downstream_remote_address remote_addr req.remoteAddress"},
	{"user", "user ClientUsername user_id remote_user"},
	{"host", "host RequestHost request.host http_host authority"},
	{"method", "method RequestMethod request.method request_method req.method"},
	{"path", "path RequestPath request.uri request_uri req.url"},
	{"referer", "referer request_Referer http_referer"},
	{"agent", "agent request_User-Agent http_user_agent user_agent"},
	{"request", "request"}, // after method and path, which it has only if they are missing
}

// ofEnvoy are names that show an object to be of Envoy, whose duration is in milliseconds.
var ofEnvoy = map[string]bool{
	"start_time": true, "response_code": true, "response_flags": true, "downstream_remote_address": true,
	"upstream_service_time": true, "upstream_cluster": true,
}

// ofPrograms are names that lines have which a program logs about itself.
var ofPrograms = map[string]bool{"level": true, "msg": true, "message": true, "severity": true, "event": true}

// units may follow the path of a duration.
var units = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond}

// jsonLines parses lines that are JSON objects.
type jsonLines struct {
	sources [len(fields)][]source // sources by field
	named   map[string]bool       // fields that the user has named
	roots   map[string]int        // the places in members of the names with which paths start
	members []gjson.Result        // members of the current object

	timeless, others int    // objects without a time, and with a time that are no requests
	badTime          string // a time that cannot be read
}

// source is where a field may be: at the rest of a path in the member at root.
type source struct {
	root    int
	rest    string        // "": the member itself
	unit    time.Duration // unit of a duration
	guessed bool          // the unit is
}

// newJSONLines reads time=ts,key=client.id,duration=took:ms.
func newJSONLines(text string) (*jsonLines, error) {
	j := &jsonLines{named: make(map[string]bool), roots: make(map[string]int)}
	paths := fields
	for pair := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		name, path, ok := strings.Cut(pair, "=")
		if !ok || path == "" || strings.Contains(path, " ") {
			return nil, fmt.Errorf("%q is not a list such as time=ts,key=client,duration=took:ms: %q is not NAME=PATH", text, pair)
		}
		i := slices.IndexFunc(fields[:], func(f struct{ name, paths string }) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("%q is not a field; use %s", name, fieldNames())
		}
		paths[i].paths, j.named[name] = path, true
		for known := range strings.FieldsSeq(fields[i].paths) {
			if strings.HasPrefix(known, path+":") {
				paths[i].paths = known // the unit is known too
			}
		}
	}
	for i, f := range paths {
		for path := range strings.FieldsSeq(f.paths) {
			s := source{unit: time.Second, guessed: path != "request_time"}
			if at := strings.LastIndexByte(path, ':'); at > 0 && f.name == "duration" && units[path[at+1:]] != 0 {
				s.unit, s.guessed, path = units[path[at+1:]], false, path[:at]
			}
			s.root, s.rest = j.root(path)
			j.sources[i] = append(j.sources[i], s)
		}
	}
	j.members = make([]gjson.Result, len(j.roots))
	return j, nil
}

// root splits a path into its first name and the rest. A path that starts with something else starts at the whole object.
func (j *jsonLines) root(path string) (root int, rest string) {
	name, rest, _ := strings.Cut(path, ".")
	if strings.ContainsAny(name, `*?\\|#`) {
		name, rest = "", path
	}
	if _, ok := j.roots[name]; !ok {
		j.roots[name] = len(j.roots)
	}
	return j.roots[name], rest
}

func fieldNames() string {
	var names [len(fields)]string
	for i, f := range fields {
		names[i] = f.name
	}
	return strings.Join(names[:], ", ")
}

// parse sets r, and reports whether an object is a request.
func (j *jsonLines) parse(whole gjson.Result, r *Record) bool {
	*r = Record{}
	clear(j.members)
	if root, ok := j.roots[""]; ok {
		j.members[root] = whole
	}
	var timed, named, unknown, program, envoy bool
	var early int64 // a time that is probably not one; 0: none
	whole.ForEach(func(name, v gjson.Result) bool {
		root, known := j.roots[name.Str]
		unknown = unknown || !known
		program = program || ofPrograms[name.Str]
		envoy = envoy || ofEnvoy[name.Str]
		if known && j.members[root].Type == gjson.Null { // the first of that name counts, but null is as if it were not there
			j.members[root] = v
		}
		return true
	})
	for i, f := range fields {
		for _, s := range j.sources[i] {
			v := j.members[s.root]
			if s.rest != "" {
				v = v.Get(s.rest)
			}
			if v.Type == gjson.Null {
				continue
			}
			if r.setJSON(f.name, s, v) {
				if f.name == "time" && !j.named["time"] && abs(r.At) < firstTime {
					early = cmp.Or(early, r.At) // "time":12 may be a duration, so another name goes first
					continue
				}
				timed = timed || f.name == "time"
				named = named || f.name != "time" && j.named[f.name]
				break
			}
			if f.name == "time" {
				j.badTime = v.String()
			}
		}
	}
	if !timed && early != 0 {
		r.At, r.Early, timed = early, true, true
	}
	if !timed {
		j.timeless++
		return false
	}
	// What a program logs about itself has a time too. It may have a path or a status, but not both.
	request := r.Method != nil || len(r.Path) > 0 && r.Status > 0
	if !program {
		request = request || len(r.Path) > 0 || r.Status > 0 || j.named["time"] || !unknown
	}
	if !request && !named {
		j.others++
		return false
	}
	if r.Unit != 0 && envoy {
		r.Took, r.Unit = r.Took/int64(time.Second/time.Millisecond), time.Millisecond
	}
	return true
}

// setJSON sets a field, and reports whether the value is of that field. An optional value that cannot be read counts as missing.
func (r *Record) setJSON(field string, s source, v gjson.Result) (ok bool) {
	switch field {
	case "time":
		r.At, ok = jsonTime(v)
		return ok
	case "duration":
		if known([]byte(v.String())) == nil {
			return false // nginx has "-" or "" where there is none
		}
		var plain bool
		if r.Took, plain = jsonDuration(v, s.unit); s.guessed && plain {
			r.Unit = s.unit
		}
	case "status":
		r.Status = int(v.Int())
		if v.Type == gjson.String && r.Status == 0 || r.Status > 999 {
			r.Status = 0
			return false // "ok" is about something else
		}
		r.Status = max(r.Status, 0)
	case "request":
		if v.Type != gjson.String {
			return false // Caddy's is an object
		}
		if line := []byte(v.String()); r.Method == nil && r.Path == nil && isRequest(line) {
			r.setRequest(line)
		}
	default:
		*r.text(field) = known([]byte(v.String()))
	}
	return true
}

// firstTime is in 1973. A number of seconds below it is probably not the time of a log.
const firstTime = 1e8 * int64(time.Second)

func abs(n int64) int64 { return max(n, -n) }

// jsonTime reads a time: RFC 3339, that of access logs, or a Unix time.
func jsonTime(v gjson.Result) (int64, bool) {
	if v.Type == gjson.Number {
		return unixTime(v.Num)
	}
	text := v.String()
	if t, ok := readTime([]byte(text)); ok {
		return t.UnixNano(), true
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
	if !(math.Abs(n)*unit < maxTime*1e9) {
		return 0, false
	}
	whole, part := math.Modf(n)
	return int64(whole)*int64(unit) + int64(math.Round(part*unit)), true
}

// jsonDuration reads a duration: a number of the unit, or text such as 250ms; 0, if it cannot be read. plain says that the
// text has no unit.
func jsonDuration(v gjson.Result, unit time.Duration) (ns int64, plain bool) {
	n, err := v.Num, error(nil)
	if v.Type != gjson.Number {
		if d, err := time.ParseDuration(v.String()); err == nil && v.String() != "0" {
			return max(int64(d), 0), false
		}
		n, err = strconv.ParseFloat(v.String(), 64)
	}
	n *= float64(unit)
	if err != nil || !(n >= 0 && n < 1e18) {
		return 0, false
	}
	return int64(math.Round(n)), true
}
