package httplimit

import (
	"context"
	"io"
	"net/http"

	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// underServer reports whether one of net/http's servers serves the request.
func underServer(ctx context.Context) bool { return ctx.Value(http.ServerContextKey) != nil }

// streamContext returns the context that ends the throttling of r's bodies. Over HTTP/1, net/http
// ends the request's context also when the client shuts down its side of the connection. Such a
// client still wants its answer; a failing read or write shows that it is gone.
func streamContext(r *http.Request) context.Context {
	if r.ProtoMajor == 1 && underServer(r.Context()) {
		return context.WithoutCancel(r.Context())
	}
	return r.Context()
}

// throttleUpload puts the body of the next handler's request under the policies' Upload.
func (adm *admission) throttleUpload() {
	if !adm.terms.uploads || !hasBody(adm.original) {
		return
	}
	for i := range adm.asked {
		if l := adm.terms.of(&adm.asked[i]); l.Upload != nil && !l.Shadow {
			adm.request.Body = ioreader.NewReader(streamContext(adm.original), adm.request.Body, partition.For(l.Upload, adm.original))
		}
	}
}

// throttledDownload returns w under the policies' Download; nil if there is none.
func (adm *admission) throttledDownload(w http.ResponseWriter) io.Writer {
	if !adm.terms.downloads || adm.original.Method == http.MethodHead {
		return nil
	}
	body := io.Writer(nil)
	for i := range adm.asked {
		l := adm.terms.of(&adm.asked[i])
		if l.Download == nil || l.Shadow {
			continue
		}
		if body == nil {
			body = w
		}
		body = ioreader.NewWriter(streamContext(adm.original), body, partition.For(l.Download, adm.original))
	}
	return body
}

// answersEarly reports whether the answer to r, which was rejected, has to say that the connection
// is closed. Otherwise net/http's server reads up to 256 KiB of an HTTP/1 request's body before it
// sends an answer, and a client that does not send its body gets none. With "Connection: close" the
// server reads that much after the answer, when the handler has returned.
func answersEarly(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ContentLength != 0 && underServer(r.Context())
}
