package accesslog

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// accessLog parses the common and the combined format, with the virtual host in front of the line or without:
//
//	[vhost:port] client ident user [02/Jan/2006:15:04:05 -0700] "METHOD /path HTTP/1.1" status bytes "referer" "agent"
//
// It also reads the two fields that sluice proxy adds in its format timed: at=UNIXTIME took=SECONDS.
type accessLog struct{}

func (accessLog) parse(line []byte, r *Record) bool {
	*r = Record{}
	head, rest, ok := r.setTime(line)
	if !ok || !r.setClient(head) {
		return false
	}
	request, rest, ok := quoted(rest)
	if !ok {
		return false
	}
	if !isRequest(request) { // another field may come first
		if next, after, ok := quoted(rest); ok && isRequest(next) {
			request, rest = next, after
		}
	}
	r.setRequest(request)
	status, rest := word(bytes.TrimLeft(rest, " "))
	if r.Status, ok = digits(status); !ok && known(status) != nil && !isRequest(request) {
		return false
	}
	_, rest = word(rest) // bytes
	if referer, rest, ok := quoted(rest); ok {
		agent, rest, _ := quoted(rest)
		r.Referer, r.Agent = known(referer), known(agent)
		r.setTimes(rest)
	}
	return true
}

// setTime finds the time, which is in brackets, and returns the text before and after it.
func (r *Record) setTime(line []byte) (head, rest []byte, ok bool) {
	for from := 0; ; {
		start := bytes.IndexByte(line[from:], '[')
		if start < 0 {
			return nil, nil, false
		}
		start += from
		end := bytes.IndexByte(line[start:], ']')
		if end < 0 {
			return nil, nil, false
		}
		if t, ok := readTime(line[start+1 : start+end]); ok {
			r.At = t.UnixNano()
			return line[:start], line[start+end+1:], true
		}
		from = start + 1
	}
}

// isRequest reports whether a text is a request line.
func isRequest(b []byte) bool {
	method, target, _ := bytes.Cut(b, []byte(" "))
	for _, c := range method {
		if (c < 'A' || c > 'Z') && c != '-' {
			return false
		}
	}
	return len(method) > 0 && len(target) > 0
}

// setTimes reads the two fields of the format timed.
func (r *Record) setTimes(rest []byte) {
	for f := range bytes.FieldsSeq(rest) {
		if at, ok := bytes.CutPrefix(f, []byte("at=")); ok {
			if n, err := strconv.ParseFloat(string(at), 64); err == nil {
				if ns, ok := unixTime(n); ok && ns-r.At < int64(time.Second) && ns >= r.At {
					r.At = ns
				}
			}
		}
		if took, ok := bytes.CutPrefix(f, []byte("took=")); ok {
			r.Took, _ = seconds(took)
		}
	}
}

// span is where a word of a text is.
type span struct{ from, to int }

// setClient reads the text before the time: the client, ident and user, in this order, after any number of other words. A user may
// contain spaces.
func (r *Record) setClient(head []byte) bool {
	var room [16]span
	words := room[:0]
	for i := 0; i < len(head); {
		if head[i] == ' ' {
			i++
			continue
		}
		end := i + 1
		for end < len(head) && head[end] != ' ' {
			end++
		}
		words = append(words, span{i, end})
		i = end
	}
	text := func(i int) []byte { return head[words[i].from:words[i].to] }
	first, last := clientAmong(len(words), text)
	if first < 0 {
		return false
	}
	r.Client = known(head[words[first].from:words[last].to])
	if first == 1 && known(text(0)) != nil && isHost(text(0)) {
		r.Host = text(0)
	}
	if ident := last + 1; ident < len(words) {
		r.User = known(bytes.TrimSpace(head[words[ident].to:]))
	}
	return true
}

// clientAmong returns which of n words is the client; several, if it is a list of addresses, as of X-Forwarded-For. It is the last address with a
// word behind it, as syslog and others may have one in front. A client without an address is the word before ident, which is
// "-" nearly everywhere.
func clientAmong(n int, text func(int) []byte) (first, last int) {
	if n < 2 {
		return -1, -1
	}
	for i := n - 2; i >= 0; i-- {
		if w, _, _ := bytes.Cut(text(i), []byte(",")); !isAddress(w) {
			continue
		}
		first = i
		for first > 0 && (bytes.HasSuffix(text(first-1), []byte(",")) || isBare(text(first-1))) {
			first--
		}
		return first, i
	}
	if n >= 3 && known(text(n-3)) == nil && known(text(n-2)) == nil {
		return n - 3, n - 3 // - - -
	}
	for i := 1; i < n; i++ {
		if known(text(i)) == nil {
			return i - 1, i - 1
		}
	}
	if n != 3 || isTime(text(0)) {
		return -1, -1
	}
	return 0, 0
}

// isBare reports whether a word is an IP address without a port. With one it may be a virtual host.
func isBare(w []byte) bool {
	if !isAddress(w) {
		return false
	}
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
		var with netip.AddrPort
		if with, err = netip.ParseAddrPort(text); err != nil {
			return netip.Addr{}
		}
		a = with.Addr()
	}
	return a.Unmap().WithZone("")
}

// isHost reports whether a word can be the name of a virtual host, with a port or without.
func isHost(w []byte) bool {
	name, port, has := bytes.Cut(w, []byte(":"))
	if has && len(port) > 0 {
		if _, ok := digits(port); !ok {
			return false
		}
	}
	if len(name) == 0 || has && len(port) == 0 {
		return false
	}
	for _, c := range name {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c >= 0x80
		if !letter && c != '.' && c != '-' && c != '_' && c != '*' {
			return false
		}
	}
	return true
}
