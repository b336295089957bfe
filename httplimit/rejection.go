package httplimit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/policy"
)

// Rejection is the reason why a request may not proceed. It is not safe for concurrent use.
type Rejection struct {
	// Policy is the name of the policy that rejected the request or whose limiter failed.
	Policy string

	// Status is the status of the response: the policy's, or 503 if its limiter failed.
	Status int

	// Lease is the lease that the limiter returned. It is not acquired, and has the metadata of the
	// rejection.
	Lease core.Lease

	// Err is the reason: a *[core.RejectedError], [core.ErrPermitsExceedLimit], the error of a
	// context if the wait timed out, or the error of a limiter that failed. Clients do not see it.
	Err error

	// RetryAfter is the time until the same request could be served. 0 if it is unknown.
	RetryAfter time.Duration

	options   *Options // nil in a Rejection that this package did not create
	rejected  *policy.Rejection[*http.Request, *ownPolicy]
	announced bool  // whether the headers are set
	quota     quota // the part of them that reports the quota
}

// newRejection returns the rejection of a request.
func newRejection(rejected *policy.Rejection[*http.Request, *ownPolicy]) *Rejection {
	status := rejected.Policy.Own.Status
	switch {
	case rejected.Result == policy.Failed:
		status = http.StatusServiceUnavailable
	case status == 0:
		status = http.StatusTooManyRequests
	}
	return &Rejection{
		Policy: rejected.Policy.Name, Status: status, Lease: rejected.Lease, Err: rejected.Err,
		RetryAfter: rejected.RetryAfter, options: rejected.Policy.Own.options, rejected: rejected,
	}
}

// respond writes the response, unless the client has disconnected: it calls OnRejected if there is one, and writes the
// standard response if that wrote nothing.
func (rej *Rejection) respond(w http.ResponseWriter, r *http.Request) {
	if rej.rejected.Result == policy.RequestCanceled {
		if underServer(r.Context()) {
			// If a handler writes nothing, the server sends a 200. The client may still read it: it may have
			// closed only its sending side, or the server may be shutting down.
			panic(http.ErrAbortHandler)
		}
		return
	}
	reject := rej.rejected.Policy.Own.OnRejected
	if reject == nil {
		reject = rej.options.OnRejected
	}
	rej.announce(w, r)
	if r.Context().Err() != nil {
		r = r.WithContext(context.WithoutCancel(r.Context())) // net/http cancels it if the body cannot be read in time
	}
	if reject != nil {
		watched := &response{ResponseWriter: w, body: w, quota: rej.quota}
		reject(watched.writer(), r, rej)
		if watched.started() {
			return
		}
	}
	rej.ServeHTTP(w, r)
}

// announce sets the headers of the response.
func (rej *Rejection) announce(w http.ResponseWriter, r *http.Request) {
	if rej.announced {
		return
	}
	rej.announced = true
	h := w.Header()
	if rej.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(secondsUp(rej.RetryAfter), 10))
	}
	h.Set("Cache-Control", "no-store")
	if !readToEnd(w, r) {
		h.Set("Connection", "close")
	}
	if rej.options != nil {
		rej.quota = setQuota(h, rej.rejected.Decisions, true)
	}
}

// ServeHTTP writes the standard response, with Status, or 429 if that is not 200 to 599. It sets the
// headers, unless they were set before OnRejected was called. The body is the lease's ReasonPhrase if
// you have set one (see [core.WithReason]), and otherwise the text of the status. The response to a
// HEAD request has no body.
func (rej *Rejection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rej.announce(w, r)
	h := w.Header()
	status := rej.Status
	if status < 200 || status > 599 {
		status = http.StatusTooManyRequests
	}
	body, kind := rej.text(status)+"\n", "text/plain; charset=utf-8"
	if rej.options != nil && rej.options.ProblemJSON {
		body, kind = rej.problemDocument(status), "application/problem+json"
	}
	h.Del("Content-Length") // of the response that it replaces
	h.Del("Content-Encoding")
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	rej.quota.removeFromRedirect(h, status)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body) // the client may have disconnected
	}
}

// failed reports whether the limiter failed.
func (rej *Rejection) failed() bool {
	return rej.rejected != nil && rej.rejected.Result == policy.Failed
}

// text returns the body of a plain response.
func (rej *Rejection) text(status int) string {
	if !rej.failed() {
		if phrase, ok := policy.Reason(rej.Lease); ok {
			return phrase
		}
	}
	if text := http.StatusText(status); text != "" {
		return text
	}
	return http.StatusText(http.StatusTooManyRequests)
}

// problem is a problem document (RFC 9457). Its types, titles and extension are those of the draft behind Draft11.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

func (rej *Rejection) problemDocument(status int) string {
	p := problem{Status: status, Detail: rej.text(status)}
	switch {
	case rej.failed():
		p.Type, p.Title = "about:blank", http.StatusText(status)
	case status == http.StatusServiceUnavailable:
		p.Type = problemTypes + "temporary-reduced-capacity"
		p.Title = "Request cannot be satisfied due to temporary server capacity constraints"
	default:
		p.Type = problemTypes + "quota-exceeded"
		p.Title = "Request cannot be satisfied as assigned quota has been exceeded"
	}
	if !rej.failed() && rej.Policy != "" {
		p.Violated = []string{rej.Policy}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "{}" // strings and a number can always be marshalled
	}
	return string(text) + "\n"
}

// Up to this many bytes of a rejected request's body are read, for at most this long, so that its connection can be
// reused. net/http reads as many bytes itself, but without a timeout.
const (
	rejectedBytes = 256 << 10
	rejectedTime  = 5 * time.Millisecond
)

// readToEnd reads the body of a rejected HTTP/1 request, if it arrives in time, and reports whether all of it was
// read. If not, the response must say that the connection will be closed. Otherwise net/http would wait for the body
// before it sends the response, while the client may be waiting for the response.
func readToEnd(w http.ResponseWriter, r *http.Request) bool {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return true
	}
	if r.ContentLength > rejectedBytes || r.Header.Get("Expect") != "" {
		return false
	}
	c := http.NewResponseController(w)
	deadline := time.Now().Add(rejectedTime)
	if c.SetReadDeadline(deadline) != nil {
		return false
	}
	n, err := io.CopyN(io.Discard, r.Body, rejectedBytes+1)
	// From the end of the body on, net/http reads in the background. If that read meets the deadline, the context of
	// the connection has ended, for later requests too.
	if c.SetReadDeadline(readDeadline(r.Context())) != nil || !time.Now().Before(deadline) {
		return false
	}
	// A body that middleware has wrapped may end before the request's own body does.
	return errors.Is(err, io.EOF) && (r.ContentLength < 0 || r.ContentLength == n)
}

// readDeadline returns the server's read deadline for a request, or the zero Time if it has none.
func readDeadline(ctx context.Context) (t time.Time) {
	if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		t = time.Now().Add(s.ReadTimeout)
	}
	return t
}
