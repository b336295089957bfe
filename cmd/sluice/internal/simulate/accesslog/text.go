package accesslog

import (
	"bytes"
	"net/netip"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// A line of text is read by its words: a text in quotes or in brackets is one word. The formats know their places from the
// time, so what syslog, Docker Compose or Kubernetes write before the line makes no difference.

// layout is a format whose words have known places. A column is a name that [Record.set] knows, or
//
//   - any word
//     ...  any words, up to one that fits the next column
//     |    after which words may be missing
//
// A word must be in quotes if its column ends with a quote.
type layout struct {
	client  func(r *Record, before [][]byte) bool // finds the client before the time; nil: it is not there
	columns []string                              // after the time
}

// common is the common and the combined format, with what sluice proxy adds in its format timed:
//
//	[vhost:port] client ident user [02/Jan/2006:15:04:05 -0700] "METHOD /path HTTP/1.1" status bytes "referer" "agent" at=UNIXTIME took=SECONDS
var common = layout{(*Record).setClient, strings.Fields(`request" | status ... referer" ... agent" ... at ... took`)}

// classic are the formats whose time is as in the common format, in brackets:
//
//   - HAProxy (option httplog), whose times are local:
//     client:port [02/Jan/2006:15:04:05.000] frontend backend/server TR/Tw/Tc/Tr/Ta status bytes - - ---- ... "METHOD /path HTTP/1.1"
//   - Amazon S3:
//     owner bucket [06/Feb/2019:00:00:38 +0000] client requester id REST.GET.OBJECT key "GET /a HTTP/1.1" 200 - 113 113 7 6 "referer" "agent" ...
var classic = []layout{
	common,
	{(*Record).setPeer, strings.Fields(`- - timers status ... request"`)},
	{nil, strings.Fields(`client user - operation - request" status - - - ms - referer agent | - - - - - host`)},
}

// modern are the formats with a time as RFC 3339 has it, in brackets: Envoy, and Istio, which has more words in between and at
// the end:
//
//	[2016-04-15T20:17:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "forwarded-for" "agent" "request-id" "host" "upstream"
var modern = []layout{
	{nil, strings.Fields(`request" status ... number number ms number? client agent - host | - - - - remote`)}, //nolint:dupword // one word per column
	common,
}

// balancer is the log of an Application Load Balancer of AWS, which has a type before the time, and of a Classic Load
// Balancer:
//
//	https 2018-07-02T22:23:00.186641Z app/name client:port target:port 0.086 0.048 0.037 200 200 0 57 "GET https://host:443/ HTTP/1.1" "agent" ...
var balancer = strings.Fields(`time - address:port - seconds seconds seconds status - - - request" agent | - - - - host - - created`) //nolint:dupword // one word per column

// parse sets r, and reports whether the words are a request.
func (r *Record) parse(words [][]byte) bool {
	for i, w := range words {
		if w[0] == '[' && w[len(w)-1] == ']' {
			t, ok := readTime(w[1 : len(w)-1])
			formats := classic
			if ok && w[5] == '-' {
				formats = modern
			}
			if ok && r.parseAfter(formats, Record{At: t.UnixNano()}, words[:i], words[i+1:]) {
				return true
			}
		}
		if *r = (Record{}); isTime(w) && r.setColumns(balancer, words[i:]) {
			return true
		}
	}
	return false
}

// parseAfter parses the words before and after a time in brackets, which start has.
func (r *Record) parseAfter(formats []layout, start Record, before, after [][]byte) bool {
	for len(after) > 1 && after[0][0] == '"' && after[1][0] == '"' && !isRequest(after[0][1:]) {
		after = after[1:] // another field is before the request
	}
	for _, l := range formats {
		*r = start
		if r.setColumns(l.columns, after) && (l.client == nil || l.client(r, before)) {
			return true
		}
	}
	return false
}

// setColumns sets the fields of words, and reports whether the words are what the columns say.
func (r *Record) setColumns(columns []string, words [][]byte) bool {
	required, skips := true, false
	for _, column := range columns {
		switch column {
		case "|":
			required = false
		case "...":
			skips = true
		default:
			for skips && len(words) > 0 && !r.set(column, words[0]) {
				words = words[1:]
			}
			if len(words) == 0 {
				return !required
			}
			if !skips && !r.set(column, words[0]) {
				return false
			}
			words, skips = words[1:], false
		}
	}
	return true
}

// split appends the words of a line. A quote or a bracket that opens no word is a part of one: clients choose what users are called.
func split(line []byte, words [][]byte) [][]byte {
	for len(line) > 0 {
		end := 0
		switch line[0] {
		case ' ', '\t':
			line = line[1:]
			continue
		case '"':
			if n := quoted(line); n == len(line) || line[n] == ' ' || line[n] == '\t' {
				end = n
			}
		case '[':
			if n := bytes.IndexByte(line, ']'); n > 0 && bytes.IndexByte(line[1:n], '[') < 0 {
				end = n + 1
			}
		}
		for end < len(line) && line[end] != ' ' && line[end] != '\t' {
			end++
		}
		words, line = append(words, line[:end]), line[end:]
	}
	return words
}

// quoted returns the length of the text in quotes at the start of b, with its quotes; 0 if they are not closed.
func quoted(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// unquote returns the text of a word, and whether it is in quotes.
func unquote(w []byte) (text []byte, ok bool) {
	if len(w) > 1 && w[0] == '"' && w[len(w)-1] == '"' {
		return w[1 : len(w)-1], true
	}
	return w, false
}

// setPeer sets the client with its port, which is the last word.
func (r *Record) setPeer(words [][]byte) bool {
	return len(words) > 0 && r.set("client:port", words[len(words)-1])
}

// setClient sets the client, ident and user, which are the last words, in this order. A user may contain spaces.
func (r *Record) setClient(words [][]byte) bool {
	if r.Status == 0 && r.Path == nil {
		return false // a line of a program
	}
	first, last := clientAmong(words)
	if first < 0 {
		return false
	}
	client, _ := unquote(join(words[first : last+1])) // a list in quotes is one word
	r.Client = known(client)
	if first > 0 && first == last && isHost(words[first-1], first == 1) {
		r.Host = words[first-1]
	}
	if ident := last + 1; ident < len(words) {
		r.User = known(join(words[ident+1:]))
	}
	return true
}

func join(words [][]byte) []byte {
	if len(words) == 1 {
		return words[0]
	}
	return bytes.Join(words, []byte(" "))
}

// clientAmong returns which of the words before a time is the client; several, if it is a list of addresses, as of
// X-Forwarded-For. It is the last address with a word behind it, because others may be in front. A client without an address
// is the word before ident, which is "-" nearly everywhere.
func clientAmong(words [][]byte) (first, last int) {
	n := len(words)
	for i := n - 2; i >= 0; i-- {
		if w, _, _ := bytes.Cut(bytes.Trim(words[i], `"`), []byte(",")); !isAddress(w) {
			continue
		}
		for first = i; first > 0 && (bytes.HasSuffix(words[first-1], []byte(",")) || isBare(words[first-1])); {
			first--
		}
		return first, i
	}
	missing := func(i int) bool { return i >= 0 && known(words[i]) == nil }
	if missing(n-3) && missing(n-2) {
		return n - 3, n - 3 // - - -
	}
	for i := n - 1; i > 0; i-- {
		if missing(i) && !missing(i-1) {
			return i - 1, i - 1
		}
	}
	if n == 3 {
		return 0, 0
	}
	return -1, -1
}

// isBare reports whether a word is an IP address without a port. With one it may be a virtual host.
func isBare(w []byte) bool {
	_, err := netip.ParseAddr(string(w))
	return err == nil
}

// isAddress reports whether a word is an IP address, with a port or without.
func isAddress(w []byte) bool {
	if len(w) < 2 || len(w) > 60 {
		return false
	}
	c := w[0] | 0x20
	return (c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || w[0] == ':' || w[0] == '[') && Address(string(w)).IsValid()
}

// Address reads an IP address, with a port or without. Without one in the text it returns the zero Addr.
func Address(text string) netip.Addr {
	bare := text
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		bare = text[1 : len(text)-1]
	}
	a, err := netip.ParseAddr(bare)
	if err != nil {
		with, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}
		}
		a = with.Addr()
	}
	return a.Unmap().WithZone("")
}

// isHost reports whether a word can be the name of a virtual host: with a port, or with a dot unless it is alone before the client.
func isHost(w []byte, alone bool) bool {
	_, ok := cli.HostOf(string(w))
	return ok && known(w) != nil && (alone || bytes.ContainsAny(w, ".:")) && w[len(w)-1] != ':'
}

// w3c is what W3C's extended log format says in its lines: of CloudFront (columns are separated by tabs) and of IIS (by
// spaces). A line "#Fields: date time c-ip ..." says what the columns are.
type w3c struct {
	columns []string
	date    string // date that the latest #Date says, for logs without a column date
}

// directive reads a line that says what the lines after it have, and reports whether it is one.
func (w *w3c) directive(line []byte) bool {
	if _, names, ok := bytes.Cut(line, []byte("#Fields:")); ok {
		w.columns = strings.Fields(string(names))
		return true
	}
	_, date, ok := bytes.Cut(line, []byte("#Date: "))
	if ok {
		w.date, _, _ = strings.Cut(string(date), " ")
	}
	return ok
}

// w3cColumns say what the columns are about.
var w3cColumns = map[string]string{
	"c-ip": "client", "cs-username": "user", "sc-status": "status", "cs-method": "method", "cs-uri-stem": "path",
	"cs(User-Agent)": "agent", "cs(Referer)": "referer", "time-taken": "time-taken",
	"x-host-header": "host", "cs-host": "host?", "cs(Host)": "host?", // of CloudFront: what the client asked for, and its own name
}

// parse sets r, and reports whether a line ends with the columns of a request. Values may be in quotes, but a quote may also be a
// part of what a client sends.
func (w *w3c) parse(line []byte, words [][]byte, r *Record) bool {
	if len(w.columns) == 0 {
		return false
	}
	values := bytes.Fields(line)
	if bytes.IndexByte(line, '\t') >= 0 {
		values = bytes.Split(line, []byte("\t"))
		values[0] = values[0][bytes.LastIndexByte(values[0], ' ')+1:] // without what a collector writes before the line
	}
	return w.parseValues(values, r) || w.parseValues(words, r)
}

// parseValues sets r, and reports whether the last values are the columns of a request.
func (w *w3c) parseValues(values [][]byte, r *Record) bool {
	first := len(values) - len(w.columns)
	if first < 0 {
		return false
	}
	*r = Record{}
	date, clock := w.date, ""
	for i, name := range w.columns {
		switch value, _ := unquote(values[first+i]); name {
		case "date":
			date = string(value)
		case "time":
			clock = string(value)
		default:
			if column := w3cColumns[name]; column != "" {
				r.set(column, value)
			}
		}
	}
	t, ok := readTime([]byte(date + " " + clock))
	r.At = t.UnixNano()
	return ok
}
