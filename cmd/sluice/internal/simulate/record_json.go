package simulate

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// field is something of a record that a line of JSON may have.
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
)

// fields are the names that --fields knows; they are also where a field stands if nothing else is said.
var fields = map[string]field{
	"time": timeField, "duration": durationField, "status": statusField, "key": keyField, "client": clientField, "user": userField,
	"host": hostField, "method": methodField, "path": pathField, "referer": refererField, "agent": agentField,
}

// jsonLines reads objects, a line each, in one pass over a line but for paths that lead into an object.
type jsonLines struct {
	plain map[string][]field // by the object's key
	deep  []deepField
}

type deepField struct {
	field

	path string
}

// parseFields reads time=ts,key=client,duration=took; a dot leads into an object.
func parseFields(text string) (*jsonLines, error) {
	paths := make(map[field]string)
	for name, f := range fields {
		paths[f] = name
	}
	if text != "" {
		for pair := range strings.SplitSeq(text, ",") {
			name, path, ok := strings.Cut(pair, "=")
			f, known := fields[name]
			if !ok || !known || path == "" {
				return nil, cli.Usage("--fields %q, want pairs such as time=ts,key=client,duration=took; %q is none", text, pair)
			}
			paths[f] = path
		}
	}
	j := &jsonLines{plain: make(map[string][]field)}
	for f, path := range paths {
		if strings.Trim(path, plainLetters) == "" {
			j.plain[path] = append(j.plain[path], f)
		} else {
			j.deep = append(j.deep, deepField{f, path})
		}
	}
	return j, nil
}

// plainLetters mean nothing but themselves in a path.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// saysKey reports whether --fields says where the key stands.
func saysKey(text string) bool {
	for pair := range strings.SplitSeq(text, ",") {
		if strings.HasPrefix(pair, "key=") {
			return true
		}
	}
	return false
}

func (j *jsonLines) parse(line []byte, r *record) bool {
	*r = record{}
	if !gjson.ValidBytes(line) {
		return false
	}
	whole := gjson.ParseBytes(line)
	ok, seen := true, fieldSet(0)
	if whole.IsObject() {
		whole.ForEach(func(key, v gjson.Result) bool {
			for _, f := range j.plain[key.Str] {
				ok = ok && seen.read(r, f, v)
			}
			return ok
		})
	}
	for _, d := range j.deep {
		if v := whole.Get(d.path); ok && v.Exists() {
			ok = seen.read(r, d.field, v)
		}
	}
	return ok && seen&(1<<timeField) != 0
}

// fieldSet has the fields that were read.
type fieldSet uint16

// read reads a field. Of a key that an object has twice the first counts.
func (s *fieldSet) read(r *record, f field, v gjson.Result) (ok bool) {
	if *s&(1<<f) != 0 {
		return true
	}
	*s |= 1 << f
	text := func(to *[]byte) { *to = []byte(v.String()) }
	switch f {
	case timeField:
		r.at, ok = jsonTime(v)
		return ok
	case durationField:
		r.took, ok = jsonDuration(v)
		return ok
	case statusField:
		r.status = int(v.Int())
	case keyField:
		text(&r.key)
	case clientField:
		text(&r.client)
	case userField:
		text(&r.user)
	case hostField:
		text(&r.host)
	case methodField:
		text(&r.method)
	case pathField:
		text(&r.path)
	case refererField:
		text(&r.referer)
	case agentField:
		text(&r.agent)
	}
	return true
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
