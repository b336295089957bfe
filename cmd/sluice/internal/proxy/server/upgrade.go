package server

import (
	"io"
	"net/http"

	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/upstream"
	"github.com/sluice-go/sluice/ioreader"
)

// throttle puts a backend's side of an upgraded connection under the limits on bytes of its request: httplimit sees only
// those before.
func (x *exchange) throttle(a *http.Response) {
	under, ok := a.Body.(io.ReadWriteCloser)
	if !ok || len(x.endpoint.throttling) == 0 {
		return
	}
	t := &throttled{under, under, under}
	for _, p := range x.endpoint.throttling {
		upload, download := p.Bytes()
		if download != nil {
			t.Reader = ioreader.NewReader(a.Request.Context(), t.Reader, download.For(x.request))
		}
		if upload != nil {
			t.Writer = ioreader.NewWriter(a.Request.Context(), t.Writer, upload.For(x.request))
		}
	}
	a.Body = t
}

// throttled is an upgraded connection to a backend.
type throttled struct {
	io.Reader
	io.Writer

	under io.ReadWriteCloser
}

func (t *throttled) Close() error { return t.under.Close() }

// CloseWrite ends one direction alone.
func (t *throttled) CloseWrite() error { return upstream.CloseWrite(t.under) }
