// Package accesslog writes the access log of a proxy: a line for each request, in a goroutine of its own. Requests never wait for it.
// If the file or its reader does not keep up, lines are lost, which is reported.
package accesslog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	queueSize   = 4 << 20          // bytes of lines that wait to be written
	reportEvery = 10 * time.Second // at most one report of lost lines
	closeTime   = time.Second      // for writing what is queued on shutdown
)

// Log is the access log of a proxy. Create it with [Open], and close it.
type Log struct {
	name    string // "-" is stdout
	format  config.LogFormat
	say     func(format string, args ...any)
	lines   *channel.LimitedChannel[[]byte]
	waiting atomic.Int64  // lines that are queued or being written
	done    chan struct{} // closed when nothing is written anymore
	to      *os.File      // where run writes; nil while it is not open
	reopens atomic.Bool   // the file is to be opened again

	mu      sync.Mutex
	lost    int    // lines since the last report
	reason  string // for which they were lost
	reports *core.TokenBucket
}

// Entry is a request that has ended, and its response.
type Entry struct {
	Request *http.Request
	Client  string    // its address, or "-"
	Start   time.Time // when the request came
	Status  int
	Bytes   int64  // bytes of the response's body
	Policy  string // policy that rejected the request; "" if there is none
	Backend string // backend that had the request last; "" if there is none
	GRPC    string // the status of a gRPC call; "": none
}

// Open opens the log of that name, or stdout if the name is "-", for appending lines of a format. say prints a message for the user.
func Open(name string, format config.LogFormat, say func(format string, args ...any)) (*Log, error) {
	l := &Log{name: name, format: format, say: say, done: make(chan struct{})}
	l.reports = core.Must(core.NewTokenBucket(core.Every(reportEvery, 1)))
	l.lines = core.Must(channel.New(channel.Options[[]byte]{
		Limiter: core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: queueSize})),
		Cost:    func(line []byte) int { return len(line) },
	}))
	if i, err := os.Stat(name); err != nil || i.Mode()&os.ModeNamedPipe == 0 { // opening a pipe waits for its reader
		if l.to, err = l.open(); err != nil {
			return nil, err
		}
	}
	go l.run()
	return l, nil
}

func (l *Log) open() (*os.File, error) {
	if l.name == "-" {
		return os.Stdout, nil
	}
	return os.OpenFile(l.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
}

// Write queues the line of a request.
func (l *Log) Write(e Entry) {
	var line []byte
	if now := time.Now(); l.format == config.JSONLog {
		line = jsonLine(e, now)
	} else {
		line = textLine(e, now, l.format == config.TimedLog)
	}
	l.waiting.Add(1)
	if l.lines.TrySend(line) != nil {
		l.lose(1, "it does not keep up")
	}
}

// run writes lines until the log is closed.
func (l *Log) run() {
	defer close(l.done)
	stop := cli.Every(time.Second, l.report)
	defer stop()
	_ = l.ensureOpen() // a pipe, whose reader may be waiting; an error comes again with the first line
	batch := make([][]byte, 64)
	for {
		n, err := l.lines.ReceiveBatch(context.Background(), batch) //nolint:forbidigo // it ends when the log is closed
		if err != nil {
			l.shut()
			return
		}
		if l.reopens.Swap(false) {
			l.openAgain()
		}
		l.writeAll(bytes.Join(batch[:n], nil))
	}
}

// writeAll writes lines. If the reader of a pipe ends, the next reader gets what is left of them.
func (l *Log) writeAll(lines []byte) {
	for len(lines) > 0 {
		n, err := 0, l.ensureOpen()
		if err == nil {
			n, err = l.to.Write(lines)
		}
		l.waiting.Add(-int64(bytes.Count(lines[:n], []byte("\n"))))
		lines = lines[n:]
		switch {
		case errors.Is(err, syscall.EPIPE) && l.name != "-":
			l.shut()
		case err != nil:
			l.lose(bytes.Count(lines, []byte("\n")), reasonOf(err))
			return
		}
	}
}

// ensureOpen opens the log if it is not open. For a pipe it waits for a reader.
func (l *Log) ensureOpen() (err error) {
	if l.to == nil {
		l.to, err = l.open()
	}
	return err
}

// reasonOf returns the error of the system alone, without the name of the file.
func reasonOf(err error) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e.Error()
	}
	return err.Error()
}

func (l *Log) shut() {
	if l.to != nil && l.name != "-" {
		_ = l.to.Close()
		l.to = nil
	}
}

// Reopen has the file opened again, after logrotate has renamed it.
func (l *Log) Reopen() {
	l.reopens.Store(true)
	_ = l.lines.TrySend(nil) // run may be waiting for a line
}

func (l *Log) openAgain() {
	if l.name == "-" || l.to == nil {
		return
	}
	f, err := l.open()
	if err != nil {
		l.say("cannot reopen the access log, still writing to the old file: %v", err)
		return
	}
	l.shut()
	l.to = f
}

// lose counts waiting lines that are lost.
func (l *Log) lose(lines int, reason string) {
	l.waiting.Add(-int64(lines))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += lines
	l.reason = reason
}

// report reports lines that are lost, not too often.
func (l *Log) report() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == 0 || !l.reports.TryAcquire(1).Acquired() {
		return
	}
	l.say("access log %s: lost %d lines: %s; %d lines are waiting to be written", l.name, l.lost, l.reason, l.waiting.Load())
	l.lost = 0
}

// Close writes the lines that are queued, unless that takes long.
func (l *Log) Close() {
	_ = l.lines.Close()
	select {
	case <-l.done:
	case <-time.After(closeTime): //nolint:forbidigo // the process ends
		l.lose(int(l.waiting.Load()), "its reader has stalled")
	}
	l.reports.Reset()
	l.report()
}

// textLine returns a line in the combined format of Apache and nginx. The time is that of the request, not of the response. A
// timed line has more behind it: when the request came, in Unix seconds, how many it took, which policy rejected it, which
// backend had it, and its status of gRPC.
func textLine(e Entry, now time.Time, timed bool) []byte {
	r := e.Request
	user, _, _ := r.BasicAuth()
	b := fmt.Appendf(nil, "%s - %s [", e.Client, Escaped(user, ' ', '['))
	b = e.Start.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = fmt.Appendf(b, `] "%s %s %s" `, Escaped(r.Method), Escaped(r.RequestURI), r.Proto)
	b = strconv.AppendInt(b, int64(e.Status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, e.Bytes, 10)
	b = fmt.Appendf(b, ` "%s" "%s"`, Escaped(r.Referer()), Escaped(r.UserAgent()))
	if timed {
		at := e.Start.UnixMicro()
		b = fmt.Appendf(b, " at=%d.%06d took=%.6f", at/1e6, at%1e6, now.Sub(e.Start).Seconds())
		for _, f := range []struct{ name, value string }{{"policy", e.Policy}, {"backend", e.Backend}, {"grpc", e.GRPC}} {
			if f.value != "" {
				b = fmt.Appendf(b, " %s=%s", f.name, Escaped(f.value, ' '))
			}
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
	Policy   string      `json:"policy,omitempty"` // policy that rejected it
	Backend  string      `json:"backend,omitempty"`
	GRPC     string      `json:"grpc,omitempty"` // status
}

// jsonLine returns an object.
func jsonLine(e Entry, now time.Time) []byte {
	r := e.Request
	user, _, _ := r.BasicAuth()
	to := new(bytes.Buffer)
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(logLine{
		Time: e.Start.UTC().Format("2006-01-02T15:04:05.000000Z"), Duration: json.Number(fmt.Sprintf("%.6f", now.Sub(e.Start).Seconds())),
		Client: e.Client, User: user, Method: r.Method, Host: r.Host, Path: r.RequestURI, Protocol: r.Proto,
		Status: e.Status, Bytes: e.Bytes, Referer: r.Referer(), Agent: r.UserAgent(),
		Policy: e.Policy, Backend: e.Backend, GRPC: e.GRPC,
	})
	return to.Bytes()
}

// Escaped returns a text of a client's so that it cannot end its field: as nginx escapes it, and - for "".
func Escaped(text string, also ...byte) string {
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
