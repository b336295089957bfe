package accesslog

import (
	"bytes"
	"net/netip"
	"strings"
	"time"
)

// layout is a log whose lines have the same words in the same places; a quoted text is one word. A column is a name that set knows,
// or
//
//   - any word
//     ...  any number of words
//     |    after which words may be missing
type layout struct {
	columns   []string
	bracketed bool // the time is in brackets, and columns are the words after it
	client    bool // the client, with its port, is the word before the time
	first     bool // the time comes first
}

// layouts are the logs of
//
//   - an Application Load Balancer of AWS, and a Classic Load Balancer, whose lines do not start with a type:
//     https 2018-07-02T22:23:00.186641Z app/name client:port target:port 0.086 0.048 0.037 200 200 0 57 "GET https://host:443/ HTTP/1.1" "agent" ...
//   - HAProxy (option httplog), whose times are local:
//     client:port [02/Jan/2006:15:04:05.000] frontend backend/server TR/Tw/Tc/Tr/Ta status bytes - - ---- ... "METHOD /path HTTP/1.1"
//   - Amazon S3:
//     owner bucket [06/Feb/2019:00:00:38 +0000] client requester id REST.GET.OBJECT key "GET /a HTTP/1.1" 200 - 113 113 7 6 "referer" "agent" ...
//   - Envoy, and Istio, which has more words in between and at the end:
//     [2016-04-15T20:17:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "forwarded-for" "agent" "request-id" "host" "upstream"
func layouts() []format {
	return []format{
		&layout{columns: strings.Fields("? time - address:port - seconds seconds seconds status - - - request agent | - - - - host - - created")}, //nolint:dupword // one word per column
		&layout{columns: strings.Fields("- - timers status ... request"), bracketed: true, client: true},
		&layout{columns: strings.Fields("client user - operation - request status - - - ms - referer agent | - - - - - host"), bracketed: true},
		&layout{columns: strings.Fields("request status ... number number ms number? client agent - host | - - - - remote"), bracketed: true, first: true}, //nolint:dupword // one word per column
	}
}

func (l *layout) parse(line []byte, r *Record) bool {
	*r = Record{}
	if l.bracketed {
		head, rest, ok := r.setTime(line)
		head = bytes.TrimRight(head, " ")
		if !ok || l.first && len(head) > 0 || l.client && !r.set("client:port", head[bytes.LastIndexByte(head, ' ')+1:]) {
			return false
		}
		line = bytes.TrimLeft(rest, " ")
	}
	return r.setColumns(l.columns, splitQuoted(line, make([][]byte, 0, 40)))
}

// setColumns sets the fields of the words of a line, and reports whether the words are what the columns say.
func (r *Record) setColumns(columns []string, words [][]byte) bool {
	required := true
	for i := 0; i < len(columns); i++ {
		switch column := columns[i]; {
		case column == "|":
			required = false
			columns, i = columns[1:], i-1
		case column == "?", column == "...":
			from, to := i, len(words)
			if column == "?" {
				to = min(i+2, to)
			}
			for ; from < to; from++ {
				if next := *r; next.setColumns(columns[i+1:], words[from:]) {
					*r = next
					return true
				}
			}
			return false
		case i >= len(words):
			return !required
		case !r.set(column, words[i]):
			return false
		}
	}
	return true
}

// set sets the field of a word, and reports whether the word can be of that column. An optional value that cannot be read counts as
// missing.
func (r *Record) set(column string, w []byte) (ok bool) {
	text := w
	inQuotes := len(w) > 1 && w[0] == '"' && w[len(w)-1] == '"'
	if inQuotes {
		text = w[1 : len(w)-1]
	}
	value := known(text)
	switch column {
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
		return inQuotes && value != nil
	case "seconds": // of several times, the sum
		ns, _ := seconds(text) // -1: it did not come so far
		r.Took += ns
	case "ms":
		ms, _ := digits(text)
		r.Took = int64(ms) * int64(time.Millisecond)
	case "timers": // the last is the sum; with "option logasap" it has a + and is too short; -1: unknown
		ms, _ := digits(bytes.TrimPrefix(text[bytes.LastIndexByte(text, '/')+1:], []byte("+")))
		r.Took = int64(ms) * int64(time.Millisecond)
		return bytes.Count(text, []byte("/")) == 4
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
	case "-":
	default:
		*r.text(column) = value
	}
	return true
}

// splitQuoted appends the words of a line; a quoted text is one word, with its quotes.
func splitQuoted(line []byte, words [][]byte) [][]byte {
	for len(line) > 0 {
		w, rest := word(line)
		if line[0] == '"' {
			if inside, after, ok := quoted(line); ok {
				w, rest = line[:len(inside)+2], bytes.TrimLeft(after, " ")
			} else {
				w, rest = line, nil
			}
		}
		words, line = append(words, w), rest
	}
	return words
}
