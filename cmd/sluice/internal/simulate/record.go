package simulate

import (
	"bytes"
	"time"
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

// either reads a log of either format: that of the first line that can be read.
type either struct {
	json   *jsonLines
	chosen parser
}

func (e *either) parse(line []byte, r *record) bool {
	if e.chosen != nil {
		return e.chosen.parse(line, r)
	}
	for _, p := range []parser{e.json, &accessLog{}} {
		if p.parse(line, r) {
			e.chosen = p
			return true
		}
	}
	return false
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
