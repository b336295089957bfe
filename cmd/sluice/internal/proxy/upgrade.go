package proxy

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// bandwidth is the limits on the bytes of a connection that a request upgrades: httplimit sees only those before.
type bandwidth struct{ upload, download []core.Limiter }

type bandwidthKey struct{}

// withBandwidth returns next with the limits on bytes of its policies for what is upgraded.
func withBandwidth(policies []*policy, next http.Handler) http.Handler {
	policies = slices.DeleteFunc(slices.Clone(policies), func(p *policy) bool { return p.Shadow || p.upload == nil && p.download == nil })
	if len(policies) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			r = r.WithContext(context.WithValue(r.Context(), bandwidthKey{}, bandwidthOf(policies, r)))
		}
		next.ServeHTTP(w, r)
	})
}

func bandwidthOf(policies []*policy, r *http.Request) (b bandwidth) {
	for _, p := range policies {
		if p.upload != nil {
			b.upload = append(b.upload, partition.For(p.upload.asked, r))
		}
		if p.download != nil {
			b.download = append(b.download, partition.For(p.download.asked, r))
		}
	}
	return b
}

// throttle puts a backend's side of an upgraded connection under the limits of its request.
func throttle(a *http.Response) {
	b, limited := a.Request.Context().Value(bandwidthKey{}).(bandwidth)
	under, ok := a.Body.(io.ReadWriteCloser)
	if !limited || !ok {
		return
	}
	t := &throttled{under, under, under}
	for _, l := range b.download {
		t.Reader = ioreader.NewReader(a.Request.Context(), t.Reader, l)
	}
	for _, l := range b.upload {
		t.Writer = ioreader.NewWriter(a.Request.Context(), t.Writer, l)
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
func (t *throttled) CloseWrite() error {
	if w, ok := t.under.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return http.ErrNotSupported
}
