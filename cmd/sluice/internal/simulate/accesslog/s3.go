package accesslog

import (
	"bytes"
	"time"
)

// s3 parses the server access log of Amazon S3:
//
//	owner bucket [06/Feb/2019:00:00:38 +0000] client requester id REST.GET.OBJECT key "GET /a HTTP/1.1" 200 - 113 113 7 6 "referer" "agent" ...
type s3 struct{}

// Where words are, behind the time.
const (
	s3Client    = 0
	s3User      = 1
	s3Operation = 3
	s3Request   = 5
	s3Status    = 6
	s3Took      = 10 // milliseconds
	s3Referer   = 12
	s3Agent     = 13
	s3Host      = 19
)

func (s3) parse(line []byte, r *Record) bool {
	*r = Record{}
	_, rest, ok := r.setTime(line)
	if !ok {
		return false
	}
	words := splitQuoted(bytes.TrimLeft(rest, " "), make([][]byte, 0, 32))
	if len(words) <= s3Agent || bytes.Count(words[s3Operation], []byte(".")) < 2 || known(words[s3Request]) == nil {
		return false
	}
	r.Client, r.User = known(words[s3Client]), known(words[s3User])
	r.setRequest(words[s3Request])
	r.Status, _ = digits(words[s3Status])
	ms, _ := digits(words[s3Took])
	r.Took = int64(ms) * int64(time.Millisecond)
	r.Referer, r.Agent = known(words[s3Referer]), known(words[s3Agent])
	if len(words) > s3Host && r.Host == nil {
		r.Host = known(words[s3Host])
	}
	return true
}
