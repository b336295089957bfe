package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/core"
)

const (
	logQueue     = 4 << 20         // bytes of lines that wait to be written
	logLook      = time.Second     // how often lost lines and stalls are looked for
	logStall     = 2 * time.Second // how long a write may take until it is reported
	logReport    = 10 * time.Second
	logCloseTime = time.Second // for writing what is queued on shutdown
)

const stalledReader = "its reader has stalled"

// accessLog writes a line for each request when it ends. Requests never wait for it: a goroutine of its own writes, and if
// that does not keep up, lines are lost, which is reported.
type accessLog struct {
	name    string // "-" is stdout
	append  func(b []byte, client string, x *exchange, now time.Time) []byte
	logf    func(format string, args ...any)
	lines   *channel.LimitedChannel[[]byte]
	done    chan struct{} // closed when nothing is written anymore
	to      *os.File      // of run; nil while it is not open
	reopens atomic.Bool   // the file is to be opened again

	mu       sync.Mutex
	lost     int       // lines since the last report
	reason   string    // for which they were lost
	reported time.Time // when lines were reported last
	writing  int       // lines that are being written
	since    time.Time // when that started
	stalled  bool      // a stall was reported
}

// openLog opens the log of that name for appending lines of a format.
func openLog(name string, format config.LogFormat, logf func(format string, args ...any)) (*accessLog, error) {
	l := &accessLog{name: name, append: appendCombined, logf: logf, done: make(chan struct{})}
	switch format {
	case config.TimedLog:
		l.append = appendTimed
	case config.JSONLog:
		l.append = appendJSON
	}
	var err error
	l.lines, err = channel.New(channel.Options[[]byte]{
		Limiter: core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: logQueue})),
		Permits: func(line []byte) int { return len(line) },
	})
	if err != nil {
		return nil, err
	}
	if i, err := os.Stat(name); err != nil || i.Mode()&os.ModeNamedPipe == 0 { // opening a pipe waits for its reader
		if l.to, err = l.open(); err != nil {
			return nil, err
		}
	}
	go l.run()
	return l, nil
}

func (l *accessLog) open() (*os.File, error) {
	if l.name == "-" {
		return os.Stdout, nil
	}
	return os.OpenFile(l.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
}

// write queues the line of a request that has ended.
func (l *accessLog) write(client string, x *exchange) {
	if l.lines.TrySend(l.append(nil, client, x, time.Now())) != nil {
		l.lose(1, "it does not keep up")
	}
}

// run writes lines until the log is closed.
func (l *accessLog) run() {
	defer close(l.done)
	stop := cli.Every(logLook, l.look)
	defer stop()
	_ = l.ensureOpen() // a pipe; an error comes again with the first line
	batch := make([][]byte, 64)
	for {
		n, err := l.lines.ReceiveBatch(context.Background(), batch) //nolint:forbidigo // it ends when the log is closed
		if err != nil {
			l.shut()
			return
		}
		l.writeAll(bytes.Join(batch[:n], nil))
	}
}

// writeAll writes lines. A stall that ends with the reader of a pipe continues with the next reader.
func (l *accessLog) writeAll(lines []byte) {
	l.mu.Lock()
	l.writing, l.since = bytes.Count(lines, []byte("\n")), time.Now()
	l.mu.Unlock()
	l.reopenIfAsked()
	for {
		err := l.ensureOpen()
		if err == nil {
			var n int
			n, err = l.to.Write(lines)
			lines = lines[n:]
		}
		if !errors.Is(err, syscall.EPIPE) || l.name == "-" {
			l.wrote(bytes.Count(lines, []byte("\n")), err)
			return
		}
		l.shut()
	}
}

// wrote notes the end of a write, and reports that of a stall.
func (l *accessLog) wrote(lost int, err error) {
	l.mu.Lock()
	l.writing = 0
	resumes := l.stalled && err == nil
	if resumes {
		l.stalled = false
	}
	l.mu.Unlock()
	if err != nil {
		l.lose(lost, reasonOf(err))
	}
	if resumes {
		l.logf("access log %s: writing again", l.name)
	}
}

// reasonOf returns the error of the system alone, without the name of the file.
func reasonOf(err error) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e.Error()
	}
	return err.Error()
}

// ensureOpen opens the log if it is not open. For a pipe it waits for a reader.
func (l *accessLog) ensureOpen() (err error) {
	if l.to == nil {
		l.to, err = l.open()
	}
	return err
}

func (l *accessLog) shut() {
	if l.to != nil && l.name != "-" {
		_ = l.to.Close()
		l.to = nil
	}
}

// reopenIfAsked opens the file again, after logrotate has renamed it.
func (l *accessLog) reopenIfAsked() {
	if !l.reopens.Swap(false) || l.name == "-" || l.to == nil {
		return
	}
	f, err := l.open()
	if err != nil {
		l.logf("cannot reopen the access log, still writing to the old file: %v", err)
		return
	}
	l.shut()
	l.to = f
}

// reopen has the file opened again for the next line.
func (l *accessLog) reopen() {
	l.reopens.Store(true)
	_ = l.lines.TrySend(nil) // run may be waiting for a line
}

// lose counts lines that are lost.
func (l *accessLog) lose(lines int, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += lines
	l.reason = reason
}

// look reports a write that takes long and, not too often, lines that are lost.
func (l *accessLog) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	stalls := !l.stalled && l.writing > 0 && time.Since(l.since) >= logStall
	l.stalled = l.stalled || stalls
	if stalls || l.lost > 0 && time.Since(l.reported) >= logReport {
		l.reportLocked()
	}
}

func (l *accessLog) reportLocked() {
	reason := l.reason
	if l.stalled {
		reason = stalledReader
	}
	l.logf("access log %s: lost %d lines: %s; %d lines are waiting to be written", l.name, l.lost, reason, l.lines.Len()+l.writing)
	l.lost, l.reported = 0, time.Now()
}

// close writes the lines that are queued, unless that takes long.
func (l *accessLog) close() {
	_ = l.lines.Close()
	select {
	case <-l.done:
	case <-time.After(logCloseTime): //nolint:forbidigo // the process ends
		l.lose(l.lines.Discard(), stalledReader)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += l.writing
	l.writing = 0
	if l.lost > 0 {
		l.reportLocked()
	}
}

// appendCombined appends a line in the combined format of Apache and nginx. The time is that of the request, not of the
// response.
func appendCombined(b []byte, client string, x *exchange, _ time.Time) []byte {
	return append(appendFields(b, client, x), '\n')
}

func appendFields(b []byte, client string, x *exchange) []byte {
	r := x.request
	user, _, _ := r.BasicAuth()
	b = fmt.Appendf(b, "%s - %s [", client, escaped(user, ' ', '['))
	b = x.start.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
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
	at := x.start.UnixMicro()
	b = fmt.Appendf(b, " at=%d.%06d took=%.6f", at/1e6, at%1e6, now.Sub(x.start).Seconds())
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
		Time: x.start.UTC().Format("2006-01-02T15:04:05.000000Z"), Duration: json.Number(fmt.Sprintf("%.6f", now.Sub(x.start).Seconds())),
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
