package httplimit

import (
	"cmp"
	"context"
	"io"
	"net/http"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// underServer reports whether one of net/http's servers serves the request.
func underServer(ctx context.Context) bool { return ctx.Value(http.ServerContextKey) != nil }

// throttle is a limiter of a body's bytes, and the flow of their waits.
type throttle struct {
	core.Limiter

	flow *core.Flow // nil for the flow of the request's context
}

// throttle returns l for the body of r, with the policy's flow.
func (p *Policy) throttle(l Limiter, r *http.Request) throttle {
	t := throttle{Limiter: partition.For(l, r)}
	if p.Flow != nil {
		flow := p.Flow(r)
		t.flow = &flow
	}
	return t
}

// context returns ctx with the flow.
func (t *throttle) context(ctx context.Context) context.Context {
	if t.flow != nil {
		return core.WithFlow(ctx, *t.flow)
	}
	return ctx
}

// upload returns the body of r under the limiter.
func upload(r *http.Request, body io.Reader, t throttle) *ioreader.Reader {
	ctx := r.Context()
	if r.ProtoMajor == 1 && underServer(ctx) {
		// Once net/http has read the body, it ends the context even if the client has only closed its sending side. The
		// handler still gets what has come.
		ctx = context.WithoutCancel(ctx)
	}
	return ioreader.NewReader(t.context(ctx), body, t.Limiter)
}

// download returns a writer of a response's body to w under all of the limiters.
func download(ctx context.Context, w io.Writer, limiters []throttle) io.Writer {
	for _, t := range limiters {
		w = ioreader.NewWriter(t.context(ctx), w, t.Limiter)
	}
	return w
}

// sharesWindow reports whether the unread bodies of some requests can fill the receive window of an HTTP/2 connection, so
// that no other body arrives. The defaults are net/http's.
func sharesWindow(ctx context.Context) bool {
	s, ok := ctx.Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return false
	}
	var c http.HTTP2Config
	if s.HTTP2 != nil {
		c = *s.HTTP2
	}
	streams, each := cmp.Or(c.MaxConcurrentStreams, 250), cmp.Or(c.MaxReceiveBufferPerStream, 1<<20)
	return each > cmp.Or(c.MaxReceiveBufferPerConnection, 1<<20)/streams
}
