package httplimit

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/core"
)

// Rejection tells why a request may not proceed. It is not safe for concurrent use.
type Rejection struct {
	// Policy is the name of the policy that did not let it pass.
	Policy string

	// Status is that of the answer: the policy's, or 503 if its limiter failed.
	Status int

	// Lease is the limiter's answer: not acquired, with the metadata of the refusal.
	Lease core.Lease

	// Err is why: a *[core.RejectedError], [core.ErrPermitsExceedLimit], a context's error
	// if the time to wait was over, or what went wrong in the limiter. No client sees it.
	Err error

	// RetryAfter is when the same request could be served. 0: unknown.
	RetryAfter time.Duration

	visit     *visit  // nil: made by somebody else
	policy    *policy // whose it is
	problem   bool    // the answer is a problem document
	failed    bool    // the limiter did not refuse, it failed
	gone      bool    // nobody is there to be answered
	announced bool    // the header fields are set
	closes    bool    // they say that the connection is closed, for the sake of the body
}

func newRejection(v *visit, p *policy, result Result, lease core.Lease, err error) *Rejection {
	no := &Rejection{
		Policy: p.Name, Status: p.Status, Lease: lease, Err: err,
		visit: v, policy: p, problem: v.terms.Problems,
		failed: result == Failed, gone: result == RequestCanceled,
	}
	switch {
	case no.failed:
		no.Status = http.StatusServiceUnavailable
		return no
	case no.Status == 0:
		no.Status = http.StatusTooManyRequests
	}
	if errors.Is(err, core.ErrPermitsExceedLimit) {
		return no
	}
	retry, _ := core.RetryAfter.From(lease)
	if rejected := new(core.RejectedError); retry <= 0 && errors.As(err, &rejected) {
		retry = rejected.RetryAfter
	}
	no.RetryAfter = max(retry, 0)
	return no
}

// announce sets the header fields of the answer.
func (no *Rejection) announce(h http.Header) {
	if no.announced {
		return
	}
	no.announced = true
	if no.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(secondsUp(no.RetryAfter), 10))
	}
	h.Set("Cache-Control", "no-store")
	if no.visit != nil {
		no.visit.tell(h)
	}
}

// ServeHTTP writes the standard answer: Status, 429 if it is none of a final response; the
// header fields, unless OnRejected has been given them already; and as the body the
// status's text, or the ReasonPhrase of the lease if it is not one of this library's own.
// A HEAD request gets no body.
func (no *Rejection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	no.announce(h)
	status := no.Status
	if status < 200 || status > 599 {
		status = http.StatusTooManyRequests
	}
	if no.visit != nil && redirects(status) {
		no.visit.untell(h)
	}
	body, kind := no.text(status)+"\n", "text/plain; charset=utf-8"
	if no.problem {
		body, kind = no.problemDocument(status), "application/problem+json"
	}
	h.Del("Content-Length") // of an answer that is not to be
	h.Del("Content-Encoding")
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	if no.keep(w, r) {
		h.Set("Content-Length", strconv.Itoa(len(body)))
		defer rid(w, r)
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body) // who does not want to hear it is gone
	}
}

// text is what a person is told.
func (no *Rejection) text(status int) string {
	if !no.failed {
		if phrase, ok := core.ReasonPhrase.From(no.Lease); ok && phrase != "" && !builtin[phrase] {
			return phrase
		}
	}
	if text := http.StatusText(status); text != "" {
		return text
	}
	return http.StatusText(http.StatusTooManyRequests)
}

// builtin are the reason phrases of this library's packages. They speak to whoever runs the
// server of its insides, not to a client.
var builtin = map[string]bool{
	"permits exhausted":          true, // core
	"queue limit reached":        true,
	"evicted by a newer request": true,
	"deadline too soon":          true,
	"partition limit reached":    true, // partition
	"capacity reached":           true, // channel
	"all workers busy":           true, // worker
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
	case no.failed:
		p.Type, p.Title = "about:blank", http.StatusText(status)
	case status == http.StatusServiceUnavailable:
		p.Type = problemTypes + "temporary-reduced-capacity"
		p.Title = "The service has less capacity than usual for the time being"
	default:
		p.Type = problemTypes + "quota-exceeded"
		p.Title = "The request is beyond the quota"
	}
	if !no.failed && no.Policy != "" {
		p.Violated = []string{no.Policy}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "{}" // strings and a number always can be
	}
	return string(text) + "\n"
}

// answer answers the request: by OnRejected if there is one, and by the standard answer
// if that wrote nothing.
func (no *Rejection) answer(w http.ResponseWriter, r *http.Request) {
	if no.gone {
		return
	}
	no.early(w, r) // else a client that is slow to send the body is slow to hear
	no.announce(w.Header())
	reject := no.policy.OnRejected
	if reject == nil {
		reject = no.visit.terms.OnRejected
	}
	if reject == nil {
		no.ServeHTTP(w, r)
		return
	}
	watched := &response{ResponseWriter: w, visit: no.visit}
	reject(watched.writer(), r, no)
	if !watched.begun() {
		no.ServeHTTP(w, r)
	}
}
