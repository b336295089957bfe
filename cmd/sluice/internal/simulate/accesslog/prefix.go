package accesslog

import (
	"bytes"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// unwrap removes what a collector of logs has added to a line: a syslog header, a name or a time that Docker, Docker Compose or
// Kubernetes write before the line, or a JSON object that contains the line. It returns nil if there is nothing to remove.
func unwrap(line []byte) []byte {
	switch {
	case len(line) == 0:
		return nil
	case line[0] == '{':
		return unwrapJSON(line)
	case line[0] == '<': // the priority of a syslog message
		if _, rest, ok := bytes.Cut(line, []byte(">")); ok {
			return unwrapSyslog(rest)
		}
	case line[0] == '[': // kubectl logs --prefix: [pod/web/nginx]
		if name, rest, ok := bytes.Cut(line, []byte("] ")); ok && bytes.HasPrefix(name, []byte("[pod/")) {
			return rest
		}
	}
	first, rest := word(line)
	if bytes.HasPrefix(rest, []byte("| ")) { // docker compose logs: web-1  | line
		return rest[2:]
	}
	if isTime(first) {
		return unwrapTimed(rest)
	}
	if message := unwrapSyslog(line); message != nil {
		return message
	}
	if i := bytes.IndexByte(line, '{'); i > 0 && line[len(line)-1] == '}' {
		return line[i:] // JSON after another header
	}
	return nil
}

// unwrapTimed returns what follows a time: of the Container Runtime Interface, of syslog with times in RFC 3339, or of Docker.
func unwrapTimed(rest []byte) []byte {
	second, after := word(rest)
	switch string(second) {
	case "stdout", "stderr":
		if tag, message := word(after); len(tag) == 1 {
			return message
		}
	}
	if tag, message := word(after); isTag(tag) {
		return message
	}
	return rest
}

// unwrapSyslog returns the message of a line of syslog: of RFC 3164 (Sep 23 07:22:00 host nginx[7]: message) or of RFC 5424
// (1 2024-09-23T07:22:00Z host nginx 7 - - message).
func unwrapSyslog(line []byte) []byte {
	if rest, ok := bytes.CutPrefix(line, []byte("1 ")); ok {
		stamp, rest := word(rest)
		for range 4 { // the host, the program, its process and the kind of message
			_, rest = word(rest)
		}
		if !isTime(stamp) {
			return nil
		}
		data, message := word(rest)
		if bytes.HasPrefix(data, []byte("[")) { // structured data, which may have spaces
			_, message, _ = bytes.Cut(rest, []byte(`"] `))
		}
		return bytes.TrimPrefix(message, []byte("\ufeff"))
	}
	if len(line) < len(time.Stamp)+1 {
		return nil
	}
	if _, err := time.Parse(time.Stamp, string(line[:len(time.Stamp)])); err != nil {
		return nil
	}
	first, rest := word(bytes.TrimLeft(line[len(time.Stamp):], " "))
	if isTag(first) { // without a host
		return rest
	}
	if tag, message := word(rest); isTag(tag) {
		return message
	}
	return nil
}

// isTag reports whether a word names a program, as syslog does: nginx: or nginx[7]: for example.
func isTag(w []byte) bool { return len(w) > 1 && w[len(w)-1] == ':' && !isAddress(w[:len(w)-1]) }

// isTime reports whether a word is a time as RFC 3339 has it.
func isTime(w []byte) bool {
	_, ok := readTime(w)
	return ok && w[4] == '-'
}

// unwrapJSON returns the line that an object has: that of Docker's json-file, of Fluent Bit, of Filebeat or of the journal.
func unwrapJSON(line []byte) []byte {
	if !gjson.ValidBytes(line) {
		return nil
	}
	for _, name := range []string{"log", "message", "MESSAGE"} {
		if v := gjson.GetBytes(line, name); v.Type == gjson.String {
			return []byte(strings.TrimRight(v.Str, "\r\n"))
		}
	}
	return nil
}
