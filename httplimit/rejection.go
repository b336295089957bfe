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
	"github.com/sluice-go/sluice/internal/policy"
)

// Rejection is the reason why a request may not proceed. It is not safe for concurrent use.
type Rejection struct {
	// Policy is the name of the policy that did not let the request pass.
	Policy string

	// Status is the status of the answer: the policy's, or 503 if its limiter failed.
	Status int

	// Lease is the limiter's answer: not acquired, with the metadata of the rejection.
	Lease core.Lease

	// Err is the reason: a *[core.RejectedError], [core.ErrPermitsExceedLimit], a context's error
	// if the time to wait was over, or the limiter's failure. It is not shown to clients.
	Err error

	// RetryAfter is the time until the same request could be served. 0: unknown.
	RetryAfter time.Duration

	options   *Options // nil: it was not made by this package
	rejected  *policy.Rejection[*http.Request, *ownPolicy]
	announced bool  // the header fields are set
	quota     quota // of them
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

// answer writes the response: by OnRejected if there is one, and the standard response if that writes
// nothing. It reports whether there is a response: there is none if the client has gone.
func (rej *Rejection) answer(w http.ResponseWriter, r *http.Request) bool {
	if rej.rejected.Result == policy.RequestCanceled {
		if underServer(r.Context()) {
			// The server would answer 200 for a handler that writes nothing. The client need not be
			// gone: it may have shut down its side, or the server may be closing.
			panic(http.ErrAbortHandler)
		}
		return false
	}
	reject := rej.rejected.Policy.Own.OnRejected
	if reject == nil {
		reject = rej.options.OnRejected
	}
	rej.announce(w, r)
	if r.Context().Err() != nil {
		r = r.WithContext(context.WithoutCancel(r.Context())) // net/http ends it if the body cannot be read in time
	}
	if reject != nil {
		watched := &response{ResponseWriter: w, body: w, quota: rej.quota}
		reject(watched.writer(), r, rej)
		if watched.begun() {
			return true
		}
	}
	rej.ServeHTTP(w, r)
	return true
}

// announce sets the header fields of the answer.
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

// ServeHTTP writes the standard answer, with Status, or 429 if that is not 200 to 599. It sets the
// header fields, unless they were set before OnRejected was called. The body is the status's text,
// or the ReasonPhrase of the lease unless that is one of this library's own. The answer to a HEAD
// request has no body.
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
	h.Del("Content-Length") // of the answer that it replaces
	h.Del("Content-Encoding")
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	rej.quota.begin(h, status)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body) // a client that is gone needs no answer
	}
}

// failed reports whether the limiter failed.
func (rej *Rejection) failed() bool {
	return rej.rejected != nil && rej.rejected.Result == policy.Failed
}

// text is for a person.
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

// problem is a document of RFC 9457, with the extension of the draft that Draft11 names.
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
		p.Title = "The service has less capacity than usual for the time being"
	default:
		p.Type = problemTypes + "quota-exceeded"
		p.Title = "The request is beyond the quota"
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

// What is read of a rejected request's body, so that its connection can be used again: a client
// that sends no more is answered after this time. net/http reads as much by itself, but without
// end.
const (
	rejectedBytes = 256 << 10
	rejectedTime  = 5 * time.Millisecond
)

// readToEnd reads the body of a rejected HTTP/1 request, if all of it is at hand, and reports
// whether there is nothing left to read. Else the answer has to say that the connection is closed:
// before other answers net/http waits for the body, and the client may be waiting for the answer.
func readToEnd(w http.ResponseWriter, r *http.Request) bool {
	ctx := r.Context()
	if r.ProtoMajor != 1 || r.ContentLength == 0 || !underServer(ctx) {
		return true
	}
	if r.ContentLength > rejectedBytes || r.Header.Get("Expect") != "" {
		return false
	}
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(rejectedTime)) != nil {
		return false
	}
	n, err := io.CopyN(io.Discard, r.Body, rejectedBytes+1)
	if c.SetReadDeadline(readDeadline(ctx)) != nil {
		return false
	}
	// A body that somebody has wrapped may end before the request's does.
	return errors.Is(err, io.EOF) && (r.ContentLength < 0 || r.ContentLength == n)
}

// readDeadline returns when the server has to have read a request; the zero Time: there is no end.
func readDeadline(ctx context.Context) (t time.Time) {
	if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		t = time.Now().Add(s.ReadTimeout)
	}
	return t
}
