package accesslog

import (
	"bytes"
	"net/netip"
	"time"
)

// balancer parses the access logs of AWS' load balancers. That of an Application Load Balancer begins with the type:
//
//	https 2018-07-02T22:23:00.186641Z app/name client:port target:port 0.086 0.048 0.037 200 200 0 57 "GET https://host:443/ HTTP/1.1" "agent" ...
//
// and that of a Classic Load Balancer with the time.
type balancer struct{}

// Where the words of a line are, after the type.
const (
	albTime         = 0 // when the answer was sent
	albClient       = 2
	albFirstTimer   = 4 // three of them, in seconds: until the target had the request, until it answered, and until the client had that
	albLastTimer    = 6
	albStatus       = 7
	albRequest      = 11
	albAgent        = 12
	albDomain       = 17 // that of TLS
	albCreationTime = 20 // when the request came
)

func (balancer) parse(line []byte, r *Record) bool {
	*r = Record{}
	words := splitQuoted(line, make([][]byte, 0, 40))
	if len(words) < 2 {
		return false
	}
	at, err := time.Parse(time.RFC3339Nano, string(words[0]))
	if err != nil {
		words = words[1:] // the type
		at, err = time.Parse(time.RFC3339Nano, string(words[albTime]))
	}
	if err != nil || len(words) <= albAgent {
		return false
	}
	port := max(bytes.LastIndexByte(words[albClient], ':'), 0)
	r.Client = bytes.Trim(words[albClient][:port], "[]")
	if _, err := netip.ParseAddr(string(r.Client)); err != nil {
		return false // another log that begins with a time
	}
	r.Status, _ = digits(words[albStatus]) // "-": there was no answer
	r.setRequest(words[albRequest])
	r.Agent = known(words[albAgent])
	for _, w := range words[albFirstTimer : albLastTimer+1] {
		ns, _ := seconds(w) // -1: it did not come so far
		r.Took += ns
	}
	if len(words) > albCreationTime {
		if name := known(words[albDomain]); name != nil {
			r.Host = name
		}
		if created, err := time.Parse(time.RFC3339Nano, string(words[albCreationTime])); err == nil {
			at = created
		}
	}
	r.At = at.UnixNano()
	return true
}

// splitQuoted appends the words of a line; what stands in quotes is one.
func splitQuoted(line []byte, words [][]byte) [][]byte {
	for len(line) > 0 {
		var w []byte
		if line[0] != '"' {
			w, line = word(line)
		} else if inside, rest, ok := quoted(line); ok {
			w, line = inside, bytes.TrimLeft(rest, " ")
		} else {
			w, line = line, nil
		}
		words = append(words, w)
	}
	return words
}
