package accesslog

import (
	"bytes"
	"net/netip"
	"strconv"
	"time"
)

// accessLog parses the common and the combined format, with the virtual host in front or without:
//
//	[vhost:port] client ident user [02/Jan/2006:15:04:05 -0700] "METHOD /path HTTP/1.1" status bytes "referer" "agent"
//
// What a proxy of sluice's writes behind it in the format timed is read, too: at=UNIXTIME took=SECONDS.
type accessLog struct{}

const logTime = "02/Jan/2006:15:04:05 -0700"

func (accessLog) parse(line []byte, r *Record) bool {
	*r = Record{}
	head, rest, _ := bytes.Cut(line, []byte(" ["))
	stamp, rest, ok := bytes.Cut(rest, []byte("]"))
	if !ok || !r.setClient(head) || len(stamp) != len(logTime) {
		return false
	}
	t, err := time.Parse(logTime, string(stamp))
	if err != nil {
		return false
	}
	r.At = t.UnixNano()
	request, rest, ok := quoted(rest)
	if !ok {
		return false
	}
	r.setRequest(request)
	status, rest := word(bytes.TrimLeft(rest, " "))
	if r.Status, ok = digits(status); !ok {
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

// setTimes reads what the format timed has behind the other fields.
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

// setClient reads what comes before the time. A user may have spaces.
func (r *Record) setClient(head []byte) bool {
	first, rest := word(head)
	second, after := word(rest)
	if isVirtualHost(first, second, after) {
		r.Host, first = first, second
		_, after = word(after) // ident
	}
	r.Client, r.User = known(first), known(bytes.TrimSpace(after))
	return len(first) > 0 && len(rest) > 0
}

// isVirtualHost reports whether the first of the words before the time is a virtual host. Then the second is the client,
// where otherwise ident is, which is "-" nearly everywhere and never an address.
func isVirtualHost(first, second, after []byte) bool {
	if known(second) == nil || bytes.IndexByte(after, ' ') < 0 {
		return false
	}
	if _, err := netip.ParseAddr(string(second)); err == nil {
		return true
	}
	_, err := netip.ParseAddr(string(first))
	colon := bytes.LastIndexByte(first, ':')
	_, port := digits(first[colon+1:])
	return err != nil && colon > 0 && port
}
