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
	"syscall"
	"time"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/core"
)

const (
	logQueue     = 4 << 20         // bytes of lines that wait to be written
	logStall     = 2 * time.Second // how long a write may take until it is reported
	logCloseTime = time.Second     // for writing what is queued on shutdown
	firstReport  = time.Second     // after which lost lines are reported
	nextReport   = 10 * time.Second
)

// accessLog writes a line for each request when it ends. Requests never wait for it: a goroutine of its own writes, and if
// that does not keep up, lines are lost, which is reported.
type accessLog struct {
	name   string // "-" is stdout
	append func(b []byte, client string, x *exchange, now time.Time) []byte
	logf   func(format string, args ...any)
	lines  *channel.LimitedChannel[[]byte]
	done   chan struct{} // closed when nothing is written anymore
	to     *os.File      // of run; nil while it is not open

	mu       sync.Mutex
	reopens  bool      // the file is to be opened again
	lost     int       // lines since the last report
	reason   string    // for which they were lost
	reports  bool      // a report is scheduled
	stalled  bool      // a stall was reported
	reported time.Time // when lost lines were reported last
	writing  int       // lines that are being written
	pollable *os.File  // what they are written to
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
	_ = l.ensureOpen() // a pipe; an error comes again with the first line
	batch := make([][]byte, 64)
	for {
		n, err := l.lines.ReceiveBatch(context.Background(), batch) //nolint:forbidigo // it ends when the log is closed
		if err != nil {
			return
		}
		l.writeAll(bytes.Join(batch[:n], nil))
	}
}

// writeAll writes lines. A stall that a SIGHUP interrupts, or that ends with the reader of a pipe, continues in the file that is
// opened then.
func (l *accessLog) writeAll(lines []byte) {
	stall := time.AfterFunc(logStall, l.reportStall)
	defer stall.Stop()
	for {
		l.reopenIfAsked()
		err := l.ensureOpen()
		if err == nil {
			l.note(l.to, lines)
			var n int
			n, err = l.to.Write(lines)
			lines = lines[n:]
			l.note(nil, nil)
		}
		switch {
		case err == nil:
			l.wrote()
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			_ = l.to.SetWriteDeadline(time.Time{})
		case errors.Is(err, syscall.EPIPE) && l.name != "-":
			_ = l.to.Close()
			l.to = nil // opening waits for the next reader
		default:
			l.lose(bytes.Count(lines, []byte("\n")), reasonOf(err))
			return
		}
	}
}

// reasonOf returns the error of the system alone, without the name of the file.
func reasonOf(err error) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e.Error()
	}
	return err.Error()
}

func (l *accessLog) ensureOpen() (err error) {
	if l.to == nil {
		l.to, err = l.open()
	}
	return err
}

// reopenIfAsked opens the file again, after logrotate has renamed it.
func (l *accessLog) reopenIfAsked() {
	l.mu.Lock()
	asked := l.reopens
	l.reopens = false
	l.mu.Unlock()
	if !asked || l.name == "-" || l.to == nil {
		return
	}
	f, err := l.open()
	if err != nil {
		l.logf("cannot reopen the access log, still writing to the old file: %v", err)
		return
	}
	_ = l.to.Close()
	l.to = f
}

// reopen has the file opened again for the next line. It interrupts a write to a pipe that has stalled.
func (l *accessLog) reopen() {
	l.mu.Lock()
	l.reopens = true
	if l.stalled && l.pollable != nil {
		_ = l.pollable.SetWriteDeadline(time.Now()) // an error: it is no pipe
	}
	l.mu.Unlock()
	_ = l.lines.TrySend(nil) // run may be waiting for a line
}

// note records which lines are being written, and to which file. Both are nil between writes.
func (l *accessLog) note(to *os.File, lines []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pollable, l.writing = to, bytes.Count(lines, []byte("\n"))
}

// wrote reports the end of a stall.
func (l *accessLog) wrote() {
	l.mu.Lock()
	was := l.stalled
	l.stalled = false
	l.mu.Unlock()
	if was {
		l.logf("access log %s: writing again", l.name)
	}
}

// reportStall reports that a write takes long.
func (l *accessLog) reportStall() {
	l.mu.Lock()
	l.stalled = true
	l.reports = true
	l.mu.Unlock()
	l.report()
}

// lose counts lines that are lost, and has them reported.
func (l *accessLog) lose(lines int, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += lines
	l.reason = reason
	if !l.reports && lines > 0 {
		l.reports = true
		time.AfterFunc(max(firstReport, nextReport-time.Since(l.reported)), l.report)
	}
}

func (l *accessLog) report() {
	l.mu.Lock()
	lost, reason := l.lost, l.reason
	if l.stalled {
		reason = "its reader has stalled"
	}
	waiting := l.lines.Len() + l.writing
	l.lost, l.reports, l.reported = 0, false, time.Now()
	l.mu.Unlock()
	l.logf("access log %s: lost %d lines: %s; %d lines are waiting to be written", l.name, lost, reason, waiting)
}

// close writes the lines that are queued, unless that takes long.
func (l *accessLog) close() {
	_ = l.lines.Close()
	select {
	case <-l.done:
		if l.to != nil && l.name != "-" {
			_ = l.to.Close()
		}
	case <-time.After(logCloseTime): //nolint:forbidigo // the process ends
		l.lose(l.lines.Discard(), "its reader has stalled")
	}
	l.mu.Lock()
	l.lost += l.writing
	l.writing = 0
	lost := l.lost
	l.mu.Unlock()
	if lost > 0 {
		l.report()
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
