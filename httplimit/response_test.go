package httplimit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// The parts of a ResponseWriter that can do more.
type (
	flusher    struct{ j *journal }
	readerFrom struct{ j *journal }
	hijacker   struct{ j *journal }
	notifier   struct{ j *journal }
	pusher     struct{ j *journal }
)

func (f flusher) Flush() { f.j.write("flush") }
func (r readerFrom) ReadFrom(src io.Reader) (int64, error) {
	r.j.write("readFrom")
	return io.Copy(io.Discard, src)
}

var errHijack = errors.New("no")

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.j.write("hijack")
	return nil, nil, errHijack
}

func (n notifier) CloseNotify() <-chan bool {
	n.j.write("closeNotify")
	return nil
}

func (p pusher) Push(target string, _ *http.PushOptions) error {
	p.j.write("push %s", target)
	return nil
}

// kind is a ResponseWriter with some methods, and what the one around it has of them.
type kind struct {
	under                                 http.ResponseWriter
	flush, readFrom, hijack, notify, push bool
}

// kinds are ResponseWriters as net/http has them, and as middlewares do.
func kinds(j *journal) map[string]kind {
	type b = *bare
	n := func() *bare { return &bare{header: make(http.Header)} }
	f, r, h, c, p := flusher{j}, readerFrom{j}, hijacker{j}, notifier{j}, pusher{j}
	return map[string]kind{
		"plain": {under: n()},
		"HTTP/1": {struct {
			b
			flusher
			readerFrom
			hijacker
			notifier
		}{n(), f, r, h, c}, true, true, true, true, false},
		"HTTP/2": {struct {
			b
			flusher
			notifier
			pusher
		}{n(), f, c, p}, true, false, false, true, true},
		"a recorder": {under: struct {
			b
			flusher
		}{n(), f}, flush: true},
		"as echo has it": {under: struct {
			b
			flusher
			hijacker
		}{n(), f, h}, flush: true, hijack: true},
		"Hijack alone": {under: struct {
			b
			hijacker
		}{n(), h}},
	}
}

// wrapping are the policies for which a ResponseWriter is wrapped, each alone.
func wrapping() map[string]httplimit.Options {
	free := all(core.Unlimited())
	return map[string]httplimit.Options{
		"refund":   {Global: &httplimit.Policy{Limiter: free, Refund: func(*http.Request, int) bool { return false }}},
		"settle":   {Global: &httplimit.Policy{Limiter: free, Settle: func(*http.Request, int, http.Header) int { return -1 }}},
		"download": {Global: &httplimit.Policy{Download: free}},
		"headers":  {Global: &httplimit.Policy{Limiter: free}, Headers: httplimit.Draft11},
	}
}

func TestResponseWriterKeepsItsInterfaces(t *testing.T) {
	for name, o := range wrapping() {
		j := new(journal)
		for which, k := range kinds(j) {
			t.Run(name+" "+which, func(t *testing.T) {
				limits(t, o).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					k.check(t, j, w, name)
				})).ServeHTTP(k.under, httptest.NewRequest(http.MethodGet, "/", nil))
			})
		}
	}
}

// check asserts that w, around k's, has the methods that it should have, and that they reach k's.
func (k kind) check(t *testing.T, j *journal, w http.ResponseWriter, way string) {
	t.Helper()
	assert.NotEqual(t, k.under, w)
	assert.Equal(t, k.under, w.(interface{ Unwrap() http.ResponseWriter }).Unwrap())
	f, ok := w.(http.Flusher)
	assert.Equal(t, k.flush, ok)
	if ok {
		f.Flush()
		assert.NoError(t, http.NewResponseController(w).Flush())
		assert.Equal(t, "flush; flush", j.read())
	} else {
		assert.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
	}
	read, err := w.(io.ReaderFrom).ReadFrom(struct{ io.Reader }{strings.NewReader("123")})
	assert.NoError(t, err)
	assert.EqualValues(t, 3, read)
	if wrote := j.read(); k.readFrom && way != "download" { // which has to look at what it reads
		assert.Equal(t, "readFrom", wrote)
	}
	if _, under := k.under.(http.Hijacker); under {
		_, ok := w.(http.Hijacker)
		assert.Equal(t, k.hijack, ok)
		_, _, err := http.NewResponseController(w).Hijack()
		assert.Equal(t, errHijack, err)
		assert.Equal(t, "hijack", j.read())
	}
	n, ok := w.(http.CloseNotifier) //nolint:staticcheck // gin asserts it
	assert.Equal(t, k.notify, ok)
	if ok {
		n.CloseNotify()
		assert.Equal(t, "closeNotify", j.read())
	}
	p, ok := w.(http.Pusher)
	assert.Equal(t, k.push, ok)
	if ok {
		assert.NoError(t, p.Push("/x", nil))
		assert.Equal(t, "push /x", j.read())
	}
}

func TestResponseWriterIsNotWrappedForNothing(t *testing.T) {
	free := all(core.Unlimited())
	var given http.ResponseWriter
	inside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { assert.Same(t, given, w) })
	for name, o := range map[string]httplimit.Options{
		"plain":           {Global: &httplimit.Policy{Limiter: free}},
		"another's":       {Global: &httplimit.Policy{Limiter: free}, Policies: []httplimit.Policy{{Name: "d", Download: free, Refund: func(*http.Request, int) bool { return true }}}},
		"upload":          {Global: &httplimit.Policy{Limiter: free, Upload: free}},
		"shadow":          {Observer: new(journal), Global: &httplimit.Policy{Limiter: refuser(core.Lease{}), Shadow: true, Download: free, Upload: free, Settle: func(*http.Request, int, http.Header) int { panic("there is nothing to settle") }}},
		"nothing granted": {Global: &httplimit.Policy{Limiter: free, Cost: func(*http.Request) int { return 0 }, Refund: func(*http.Request, int) bool { return true }}},
		"none":            {Headers: httplimit.Draft11, Policies: []httplimit.Policy{{Name: "other", Limiter: free}}},
	} {
		t.Run(name, func(t *testing.T) {
			given = httptest.NewRecorder()
			limits(t, o).Handler(inside).ServeHTTP(given, httptest.NewRequest(http.MethodGet, "/", nil))
		})
	}
}

func TestRefund(t *testing.T) {
	for _, c := range []struct {
		name   string
		handle func(http.ResponseWriter)
		want   int
	}{
		{"nothing", func(http.ResponseWriter) {}, 200},
		{"status", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			w.WriteHeader(http.StatusInternalServerError)
		}, 403},
		{"hints first", func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints); w.WriteHeader(http.StatusNotFound) }, 404},
		{"body", func(w http.ResponseWriter) { write(w); w.WriteHeader(http.StatusInternalServerError) }, 200},
		{"string", func(w http.ResponseWriter) { writeString(w); w.WriteHeader(http.StatusInternalServerError) }, 200},
		{"flush", func(w http.ResponseWriter) { w.(http.Flusher).Flush(); w.WriteHeader(http.StatusInternalServerError) }, 200},
		{"switching", func(w http.ResponseWriter) { w.WriteHeader(http.StatusSwitchingProtocols) }, 101},
		{"panic", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 500},
		{"panic after a status", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound); panic(http.ErrAbortHandler) }, 404},
		{"panic after a body", func(w http.ResponseWriter) { write(w); panic(http.ErrAbortHandler) }, 200},
	} {
		for _, refund := range []bool{true, false} {
			t.Run(fmt.Sprint(c.name, refund), func(t *testing.T) {
				outer, inner := perMinute(t, 10), perMinute(t, 10)
				j := new(journal)
				l := limits(t, httplimit.Options{
					Global: &httplimit.Policy{Limiter: all(outer), Refund: func(r *http.Request, status int) bool {
						j.write("global %d %s", status, r.URL.Path)
						return refund
					}},
					Policies: []httplimit.Policy{{Name: "p", Limiter: all(inner), Refund: func(_ *http.Request, status int) bool {
						j.write("p %d", status)
						return !refund
					}}},
				})
				func() {
					defer func() { _ = recover() }()
					get(l.Handler(l.Policy("p")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.handle(w) }))), "/x")
				}()
				require.Equal(t, fmt.Sprintf("p %d; global %[1]d /x", c.want), j.read())
				require.Equal(t, refund, outer.Available() == 10)
				require.Equal(t, refund, inner.Available() == 9)
			})
		}
	}
}

func write(w io.Writer) { _, _ = w.Write([]byte("x")) }

func writeString(w io.Writer) { _, _ = io.WriteString(w, "x") }
