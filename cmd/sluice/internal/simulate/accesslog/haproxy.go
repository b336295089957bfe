package accesslog

import (
	"bytes"
	"time"
)

// haproxy parses HAProxy's HTTP log (option httplog), with what syslog puts in front or without:
//
//	client:port [02/Jan/2006:15:04:05.000] frontend backend/server TR/Tw/Tc/Tr/Ta status bytes - - ---- ... "METHOD /path HTTP/1.1"
//
// Its times have no zone: they are local.
type haproxy struct{}

const haproxyTime = "02/Jan/2006:15:04:05.000"

func (haproxy) parse(line []byte, r *Record) bool {
	*r = Record{}
	end := bytes.Index(line, []byte("] "))
	begin := end - len(haproxyTime)
	if begin < 2 || line[begin-1] != '[' {
		return false
	}
	t, err := time.ParseInLocation(haproxyTime, string(line[begin:end]), time.Local)
	if err != nil {
		return false
	}
	r.At = t.UnixNano()
	client := bytes.TrimRight(line[:begin-1], " ")
	client = client[bytes.LastIndexByte(client, ' ')+1:]
	port := bytes.LastIndexByte(client, ':')
	if port < 0 {
		return false
	}
	r.Client = bytes.Trim(client[:port], "[]")
	_, rest := word(line[end+2:]) // frontend
	_, rest = word(rest)          // backend/server
	timers, rest := word(rest)
	status, rest := word(rest)
	took := timers[bytes.LastIndexByte(timers, '/')+1:]
	if bytes.Count(timers, []byte("/")) != 4 {
		return false
	}
	ms, _ := digits(bytes.TrimPrefix(took, []byte("+"))) // with "option logasap" a + and too short; -1: unknown
	r.Took = int64(ms) * int64(time.Millisecond)
	r.Status, _ = digits(status) // -1: there was no answer
	request, _, ok := quoted(rest)
	r.setRequest(request)
	return ok
}
