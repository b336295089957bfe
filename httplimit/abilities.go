package httplimit

import (
	"io"
	"net/http"
)

// What a ResponseWriter can do beside writing.
const (
	flusher = 1 << iota
	readerFrom
	hijacker
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
	if _, ok := w.(http.Pusher); ok {
		able |= pusher
	}
	return able
}

// writer returns r as what a handler is given: able to do what the ResponseWriter underneath
// can, and no more, since handlers find out what they can do by asking for the interfaces.
func (r *response) writer() http.ResponseWriter {
	able := abilities(r.ResponseWriter)
	if able&pusher != 0 {
		return r.pushing(able)
	}
	f, c, h := flush{r}, readFrom{r}, hijack{r}
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

// pushing is writer for what is an [http.Pusher] too, as HTTP/2 is.
func (r *response) pushing(able int) http.ResponseWriter {
	f, c, h, p := flush{r}, readFrom{r}, hijack{r}, push{r}
	switch able {
	case flusher | pusher:
		return struct {
			*response
			flush
			push
		}{r, f, p}
	case readerFrom | pusher:
		return struct {
			*response
			readFrom
			push
		}{r, c, p}
	case flusher | readerFrom | pusher:
		return struct {
			*response
			flush
			readFrom
			push
		}{r, f, c, p}
	case hijacker | pusher:
		return struct {
			*response
			hijack
			push
		}{r, h, p}
	case flusher | hijacker | pusher:
		return struct {
			*response
			flush
			hijack
			push
		}{r, f, h, p}
	case readerFrom | hijacker | pusher:
		return struct {
			*response
			readFrom
			hijack
			push
		}{r, c, h, p}
	case flusher | readerFrom | hijacker | pusher:
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
