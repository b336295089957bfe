package proxy

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"
)

// visit is what the access log and the metrics know of a request. It has the request's ResponseWriter, to see what is
// answered. The goroutine that serves the request has it to itself.
type visit struct {
	http.ResponseWriter

	began   time.Time
	status  int
	bytes   int64
	policy  string // that rejected the request; "": none
	backend string // that the request was sent to last; "": none
}

// statusLeft is nginx's status of a client that left before the answer.
const statusLeft = 499

type visitKey struct{}

// visitOf returns the visit of a request; nil: it has none.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// visited notes the backend that a request is sent to.
func visited(ctx context.Context, backend string) {
	if v := visitOf(ctx); v != nil {
		v.backend = backend
	}
}

// visits returns next with a visit for each of its requests, which is counted and logged at its end.
func (p *proxy) visits(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{ResponseWriter: w, began: time.Now(), status: statusLeft}
		defer func() {
			if p.metrics != nil {
				p.metrics.answered(v)
			}
			if p.access != nil {
				p.access.write(p.keys.address(r), r, v)
			}
		}()
		next.ServeHTTP(v, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
		if v.status == statusLeft {
			v.status = http.StatusOK // which net/http sends
		}
	})
}

// grpcStatus returns the status of a call of gRPC, which may be in the trailer; "": there is none.
func (v *visit) grpcStatus() string {
	h := v.Header()
	if s := h.Get("Grpc-Status"); s != "" {
		return s
	}
	return h.Get(http.TrailerPrefix + "Grpc-Status")
}

// WriteHeader notes the status.
func (v *visit) WriteHeader(status int) {
	if v.status == statusLeft && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		v.status = status
	}
	v.ResponseWriter.WriteHeader(status)
}

func (v *visit) Write(p []byte) (int, error) {
	if v.status == statusLeft {
		v.status = http.StatusOK
	}
	n, err := v.ResponseWriter.Write(p)
	v.bytes += int64(n)
	return n, err
}

// Hijack takes the connection over, which is done to upgrade it.
func (v *visit) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buf, err := http.NewResponseController(v.ResponseWriter).Hijack()
	if err == nil {
		v.status = http.StatusSwitchingProtocols
	}
	return c, buf, err
}

// Unwrap is for [http.ResponseController].
func (v *visit) Unwrap() http.ResponseWriter { return v.ResponseWriter }
