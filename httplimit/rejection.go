package httplimit

import (
	"context"
	"encoding/json"
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

	terms     *terms // nil: it was not made by this package
	asked     []ask  // the last one rejected
	result    Result
	announced bool  // the header fields are set
	quota     quota // of them
}

// newRejection returns the rejection by the policy that was asked last.
func newRejection(t *terms, result Result, asked []ask, err error) *Rejection {
	a := &asked[len(asked)-1]
	no := &Rejection{
		Policy: a.Policy.Name, Status: t.of(a).Status, Lease: a.Lease, Err: err,
		terms: t, asked: asked, result: result,
	}
	switch {
	case result == Failed:
		no.Status = http.StatusServiceUnavailable
		return no
	case no.Status == 0:
		no.Status = http.StatusTooManyRequests
	}
	no.RetryAfter = policy.RetryAfter(a.Lease, err)
	return no
}

// answer answers the request: by OnRejected if there is one, and by the standard answer if that
// writes nothing.
func (no *Rejection) answer(w http.ResponseWriter, r *http.Request) {
	if no.result == RequestCanceled {
		if underServer(r.Context()) {
			// The server would answer 200 for a handler that writes nothing. The client need not be
			// gone: it may have shut down its side, or the server may be closing.
			panic(http.ErrAbortHandler)
		}
		return
	}
	reject := no.terms.of(&no.asked[len(no.asked)-1]).OnRejected
	if reject == nil {
		reject = no.terms.OnRejected
	}
	no.announce(w, r)
	if r.Context().Err() != nil {
		r = r.WithContext(context.WithoutCancel(r.Context())) // net/http ends it if the body cannot be read in time
	}
	if reject != nil {
		watched := &response{ResponseWriter: w, before: func(status int) { no.redirect(w.Header(), status) }}
		reject(watched.writer(), r, no)
		if watched.begun() {
			return
		}
	}
	no.ServeHTTP(w, r)
}

// announce sets the header fields of the answer.
func (no *Rejection) announce(w http.ResponseWriter, r *http.Request) {
	if no.announced {
		return
	}
	no.announced = true
	h := w.Header()
	if no.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(secondsUp(no.RetryAfter), 10))
	}
	h.Set("Cache-Control", "no-store")
	if !readToEnd(w, r) {
		h.Set("Connection", "close")
	}
	if no.terms != nil {
		no.quota = no.terms.setQuota(h, no.asked, true)
	}
}

// redirect removes the fields that do not belong on a redirect.
func (no *Rejection) redirect(h http.Header, status int) {
	if redirects(status) {
		no.quota.remove(h)
	}
}

// ServeHTTP writes the standard answer, with Status, or 429 if that is not 200 to 599. It sets the
// header fields, unless they were set before OnRejected was called. The body is the status's text,
// or the ReasonPhrase of the lease unless that is one of this library's own. The answer to a HEAD
// request has no body.
func (no *Rejection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	no.announce(w, r)
	h := w.Header()
	status := no.Status
	if status < 200 || status > 599 {
		status = http.StatusTooManyRequests
	}
	body, kind := no.text(status)+"\n", "text/plain; charset=utf-8"
	if no.terms != nil && no.terms.Problems {
		body, kind = no.problemDocument(status), "application/problem+json"
	}
	h.Del("Content-Length") // of the answer that it replaces
	h.Del("Content-Encoding")
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	no.redirect(h, status)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body) // a client that is gone needs no answer
	}
}

// text is for a person.
func (no *Rejection) text(status int) string {
	if no.result != Failed {
		if phrase, ok := policy.Reason(no.Lease); ok {
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

func (no *Rejection) problemDocument(status int) string {
	p := problem{Status: status, Detail: no.text(status)}
	switch {
	case no.result == Failed:
		p.Type, p.Title = "about:blank", http.StatusText(status)
	case status == http.StatusServiceUnavailable:
		p.Type = problemTypes + "temporary-reduced-capacity"
		p.Title = "The service has less capacity than usual for the time being"
	default:
		p.Type = problemTypes + "quota-exceeded"
		p.Title = "The request is beyond the quota"
	}
	if no.result != Failed && no.Policy != "" {
		p.Violated = []string{no.Policy}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "{}" // strings and a number can always be marshalled
	}
	return string(text) + "\n"
}
