package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// accessLog writes a line for each request, at its end.
type accessLog struct {
	name   string // "-": standard output
	append func(b []byte, client string, x *exchange, now time.Time) []byte

	mu sync.Mutex
	to *os.File
}

// openLog opens the log of that name for appending lines of a format.
func openLog(name string, format config.LogFormat) (*accessLog, error) {
	l := &accessLog{name: name, append: appendCombined}
	switch format {
	case config.TimedLog:
		l.append = appendTimed
	case config.JSONLog:
		l.append = appendJSON
	}
	if err := l.reopen(); err != nil {
		return nil, err
	}
	return l, nil
}

// reopen opens the file anew, as after logrotate has renamed it.
func (l *accessLog) reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.name == "-" {
		l.to = os.Stdout
		return nil
	}
	f, err := os.OpenFile(l.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	if l.to != nil {
		_ = l.to.Close()
	}
	l.to = f
	return nil
}

// reopenLog opens the access log anew, after logrotate has renamed the file.
func (p *Proxy) reopenLog() {
	if p.access == nil {
		return
	}
	if err := p.access.reopen(); err != nil {
		p.say("the access log goes on in the old file: %v", err)
	}
}

func (l *accessLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.name == "-" {
		return nil
	}
	return l.to.Close()
}

// write writes the line of a request that has ended.
func (l *accessLog) write(client string, x *exchange) {
	line := l.append(nil, client, x, time.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.to.Write(line)
}

// appendCombined appends a line in the combined format of Apache and nginx. The time is that of the request, not of the
// answer.
func appendCombined(b []byte, client string, x *exchange, _ time.Time) []byte {
	return append(appendFields(b, client, x), '\n')
}

func appendFields(b []byte, client string, x *exchange) []byte {
	r := x.request
	user, _, _ := r.BasicAuth()
	b = fmt.Appendf(b, "%s - %s [", client, escaped(user, ' ', '['))
	b = x.began.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = fmt.Appendf(b, `] "%s %s %s" `, escaped(r.Method), escaped(r.RequestURI), r.Proto)
	b = strconv.AppendInt(b, int64(x.status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, x.bytes, 10)
	return fmt.Appendf(b, ` "%s" "%s"`, escaped(r.Referer()), escaped(r.UserAgent()))
}

// appendTimed appends a line in the combined format, with more behind it: when the request came, in Unix seconds, how many
// it took, which policy rejected it, which backend had it, and its status of gRPC.
func appendTimed(b []byte, client string, x *exchange, now time.Time) []byte {
	b = appendFields(b, client, x)
	at := x.began.UnixMicro()
	b = fmt.Appendf(b, " at=%d.%06d took=%.6f", at/1e6, at%1e6, now.Sub(x.began).Seconds())
	for _, f := range []struct{ name, value string }{{"policy", x.policy}, {"backend", x.backend}, {"grpc", x.grpcStatus()}} {
		if f.value != "" {
			b = fmt.Appendf(b, " %s=%s", f.name, escaped(f.value, ' '))
		}
	}
	return append(b, '\n')
}

// logLine is a line in JSON. Its names are those that sluice simulate looks for.
type logLine struct {
	Time     string      `json:"time"`     // when the request came
	Duration json.Number `json:"duration"` // seconds
	Client   string      `json:"client"`
	User     string      `json:"user,omitempty"`
	Method   string      `json:"method"`
	Host     string      `json:"host"`
	Path     string      `json:"path"`
	Protocol string      `json:"protocol"`
	Status   int         `json:"status"`
	Bytes    int64       `json:"bytes"`
	Referer  string      `json:"referer,omitempty"`
	Agent    string      `json:"agent,omitempty"`
	Policy   string      `json:"policy,omitempty"` // that rejected it
	Backend  string      `json:"backend,omitempty"`
	GRPC     string      `json:"grpc,omitempty"` // status
}

// appendJSON appends an object.
func appendJSON(b []byte, client string, x *exchange, now time.Time) []byte {
	r := x.request
	user, _, _ := r.BasicAuth()
	to := bytes.NewBuffer(b)
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	_ = e.Encode(logLine{
		Time: x.began.UTC().Format("2006-01-02T15:04:05.000000Z"), Duration: json.Number(fmt.Sprintf("%.6f", now.Sub(x.began).Seconds())),
		Client: client, User: user, Method: r.Method, Host: r.Host, Path: r.RequestURI, Protocol: r.Proto,
		Status: x.status, Bytes: x.bytes, Referer: r.Referer(), Agent: r.UserAgent(),
		Policy: x.policy, Backend: x.backend, GRPC: x.grpcStatus(),
	})
	return to.Bytes()
}

// escaped returns a text of a client's so that it cannot end its field: as nginx escapes it, and - for "".
func escaped(text string, also ...byte) string {
	if text == "" {
		return "-"
	}
	b := make([]byte, 0, len(text))
	for i := range len(text) {
		c := text[i]
		odd := c < ' ' || c >= 0x7f || c == '"' || c == '\\'
		for _, a := range also {
			odd = odd || c == a
		}
		if odd {
			b = fmt.Appendf(b, `\x%02X`, c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
