package httplimit

import (
	"io"
	"net/http"
)

// What a ResponseWriter can do besides writing.
const (
	flusher = 1 << iota
	readerFrom
	hijacker
	notifier
	pusher
)

func abilities(w http.ResponseWriter) (able int) {
	if _, ok := w.(http.Flusher); ok {
		able |= flusher
	}
	if _, ok := w.(io.ReaderFrom); ok {
		able |= readerFrom
	}
	if _, ok := w.(http.Hijacker); ok {
		able |= hijacker
	}
	if _, ok := w.(http.CloseNotifier); ok { //nolint:staticcheck // gin asserts it
		able |= notifier
	}
	if _, ok := w.(http.Pusher); ok {
		able |= pusher
	}
	return able
}

// writer returns r for a handler: with the methods of the ResponseWriter underneath, and no more,
// as handlers find out what it can do by asserting interfaces. The methods of a type are fixed, so
// there is a type for each set of them.
func (r *response) writer() http.ResponseWriter {
	f, c, h := flush{r}, readFrom{r}, hijack{r}
	able := abilities(r.ResponseWriter)
	if able&notifier != 0 || able&pusher != 0 {
		return r.writerOfMore(able, f, c, h)
	}
	switch able {
	case flusher:
		return struct {
			*response
			flush
		}{r, f}
	case readerFrom:
		return struct {
			*response
			readFrom
		}{r, c}
	case flusher | readerFrom:
		return struct {
			*response
			flush
			readFrom
		}{r, f, c}
	case hijacker:
		return struct {
			*response
			hijack
		}{r, h}
	case flusher | hijacker:
		return struct {
			*response
			flush
			hijack
		}{r, f, h}
	case readerFrom | hijacker:
		return struct {
			*response
			readFrom
			hijack
		}{r, c, h}
	case flusher | readerFrom | hijacker:
		return struct {
			*response
			flush
			readFrom
			hijack
		}{r, f, c, h}
	}
	return r
}

// writerOfMore is writer with CloseNotify, as HTTP/1 has it, with Push, or with both, as HTTP/2 has.
func (r *response) writerOfMore(able int, f flush, c readFrom, h hijack) http.ResponseWriter {
	n, p := notify{r}, push{r}
	switch able & (notifier | pusher) {
	case notifier:
		return r.notifying(able, f, c, h, n)
	case pusher:
		return r.pushing(able, f, c, h, p)
	}
	return r.notifyingAndPushing(able, f, c, h, both{n, p})
}

type both struct {
	notify
	push
}

func (r *response) notifying(able int, f flush, c readFrom, h hijack, n notify) http.ResponseWriter {
	switch able &^ (notifier | pusher) {
	case flusher:
		return struct {
			*response
			flush
			notify
		}{r, f, n}
	case readerFrom:
		return struct {
			*response
			readFrom
			notify
		}{r, c, n}
	case flusher | readerFrom:
		return struct {
			*response
			flush
			readFrom
			notify
		}{r, f, c, n}
	case hijacker:
		return struct {
			*response
			hijack
			notify
		}{r, h, n}
	case flusher | hijacker:
		return struct {
			*response
			flush
			hijack
			notify
		}{r, f, h, n}
	case readerFrom | hijacker:
		return struct {
			*response
			readFrom
			hijack
			notify
		}{r, c, h, n}
	case flusher | readerFrom | hijacker:
		return struct {
			*response
			flush
			readFrom
			hijack
			notify
		}{r, f, c, h, n}
	}
	return struct {
		*response
		notify
	}{r, n}
}

func (r *response) pushing(able int, f flush, c readFrom, h hijack, p push) http.ResponseWriter {
	switch able &^ (notifier | pusher) {
	case flusher:
		return struct {
			*response
			flush
			push
		}{r, f, p}
	case readerFrom:
		return struct {
			*response
			readFrom
			push
		}{r, c, p}
	case flusher | readerFrom:
		return struct {
			*response
			flush
			readFrom
			push
		}{r, f, c, p}
	case hijacker:
		return struct {
			*response
			hijack
			push
		}{r, h, p}
	case flusher | hijacker:
		return struct {
			*response
			flush
			hijack
			push
		}{r, f, h, p}
	case readerFrom | hijacker:
		return struct {
			*response
			readFrom
			hijack
			push
		}{r, c, h, p}
	case flusher | readerFrom | hijacker:
		return struct {
			*response
			flush
			readFrom
			hijack
			push
		}{r, f, c, h, p}
	}
	return struct {
		*response
		push
	}{r, p}
}

func (r *response) notifyingAndPushing(able int, f flush, c readFrom, h hijack, b both) http.ResponseWriter {
	switch able &^ (notifier | pusher) {
	case flusher:
		return struct {
			*response
			flush
			both
		}{r, f, b}
	case readerFrom:
		return struct {
			*response
			readFrom
			both
		}{r, c, b}
	case flusher | readerFrom:
		return struct {
			*response
			flush
			readFrom
			both
		}{r, f, c, b}
	case hijacker:
		return struct {
			*response
			hijack
			both
		}{r, h, b}
	case flusher | hijacker:
		return struct {
			*response
			flush
			hijack
			both
		}{r, f, h, b}
	case readerFrom | hijacker:
		return struct {
			*response
			readFrom
			hijack
			both
		}{r, c, h, b}
	case flusher | readerFrom | hijacker:
		return struct {
			*response
			flush
			readFrom
			hijack
			both
		}{r, f, c, h, b}
	}
	return struct {
		*response
		both
	}{r, b}
}
