package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// accessLog writes a line for each request, in the combined format of Apache and nginx.
type accessLog struct {
	name string // "-": standard output

	mu sync.Mutex
	to io.WriteCloser
}

// openLog opens the log of that name for appending.
func openLog(name string) (*accessLog, error) {
	l := &accessLog{name: name}
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
		l.to = nopCloser{os.Stdout}
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

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func (l *accessLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Close()
}

// handler returns next with a line for each of its requests, whose client address is told by address.
func (l *accessLog) handler(address func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &seenWriter{ResponseWriter: w, status: statusLeft}
		defer func() {
			line := appendLine(nil, address(r), began, r, seen)
			l.mu.Lock()
			defer l.mu.Unlock()
			_, _ = l.to.Write(line)
		}()
		next.ServeHTTP(seen, r)
		if seen.status == statusLeft {
			seen.status = http.StatusOK // which net/http sends
		}
	})
}

// statusLeft is nginx's status of a client that left before the answer.
const statusLeft = 499

// appendLine appends a line to b. The time is that of the request, not of the answer.
func appendLine(b []byte, client string, began time.Time, r *http.Request, w *seenWriter) []byte {
	user, _, _ := r.BasicAuth()
	b = fmt.Appendf(b, "%s - %s [", client, escaped(user, ' ', '['))
	b = began.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = fmt.Appendf(b, `] "%s %s %s" `, escaped(r.Method), escaped(r.RequestURI), r.Proto)
	b = strconv.AppendInt(b, int64(w.status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, w.bytes, 10)
	return fmt.Appendf(b, " \"%s\" \"%s\"\n", escaped(r.Referer()), escaped(r.UserAgent()))
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

// seenWriter remembers what was answered.
type seenWriter struct {
	http.ResponseWriter

	status int
	bytes  int64
}

func (w *seenWriter) WriteHeader(status int) {
	if w.status == statusLeft && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *seenWriter) Write(p []byte) (int, error) {
	if w.status == statusLeft {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Hijack takes the connection over, which is done to upgrade it.
func (w *seenWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.status = http.StatusSwitchingProtocols
	}
	return c, buf, err
}

// Unwrap is for [http.ResponseController].
func (w *seenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
