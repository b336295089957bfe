package accesslog

import (
	"bytes"
	"time"
)

// envoy parses the default text format of Envoy, and that of Istio, which has more words in between and at the end:
//
//	[2016-04-15T20:17:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "forwarded-for" "agent" "request-id" "host" "upstream"
type envoy struct{}

// Where words are, from the four numbers on: bytes received and sent, the duration in milliseconds, and that of the upstream.
const (
	envoyDuration  = 2
	envoyForwarded = 4
	envoyAgent     = 5
	envoyHost      = 7
	envoyRemote    = 12 // of Istio: the downstream's address
)

func (envoy) parse(line []byte, r *Record) bool {
	*r = Record{}
	if len(line) == 0 || line[0] != '[' {
		return false
	}
	stamp, rest, _ := bytes.Cut(line[1:], []byte(`] "`))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return false
	}
	words := splitQuoted(line[len(stamp)+3:], make([][]byte, 0, 24))
	numbers := -1
	for i := 2; i+envoyHost < len(words) && numbers < 0; i++ {
		_, received := digits(words[i])
		_, sent := digits(words[i+1])
		_, took := digits(words[i+envoyDuration])
		_, above := digits(words[i+3])
		if received && sent && took && (above || known(words[i+3]) == nil) {
			numbers = i
		}
	}
	if numbers < 0 || rest == nil {
		return false
	}
	words, request, status := words[numbers:], words[0], words[1]
	r.At = at.UnixNano()
	r.setRequest(request)
	r.Status, _ = digits(status)
	ms, _ := digits(words[envoyDuration])
	r.Took = int64(ms) * int64(time.Millisecond)
	r.Client, r.Agent = known(words[envoyForwarded]), known(words[envoyAgent])
	if r.Client == nil && len(words) > envoyRemote {
		r.Client = known(words[envoyRemote])
	}
	if host := known(words[envoyHost]); host != nil {
		r.Host = host
	}
	return true
}
