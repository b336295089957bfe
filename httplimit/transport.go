package httplimit

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/invalid"
	"github.com/sluice-go/sluice/internal/limit/backoff"
	"github.com/sluice-go/sluice/internal/limit/policy"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// TransportOptions are the options of [NewTransport]. A Transport without any options works like
// http.DefaultTransport.
type TransportOptions struct {
	// Base sends the requests. nil means http.DefaultTransport.
	Base http.RoundTripper

	// Limiter grants a permit for each attempt to send a request. An attempt waits for its permit
	// if the limiter's queue has room (QueueLimit), and is rejected otherwise. The lease is held
	// until the response's body has ended or is closed. nil means no limit. Use [Shared] for a
	// core.Limiter.
	Limiter Limiter

	// Cost returns the cost of a request. If it is nil, each request costs 1. If it returns 0 or
	// less, the request does not need a permit of Limiter; Upload and Download still apply.
	Cost func(*http.Request) int

	// Settle is called when the response's body has ended or is closed, so it can read trailers. It
	// returns the request's actual cost in permits; the difference is refunded or charged as a
	// debt. If it returns a negative number, or is nil, the cost does not change.
	Settle func(*http.Response) int

	// Upload and Download throttle the bodies of requests and of responses; their permits are
	// bytes. nil means no limit. An upgraded connection (101) is not throttled.
	Upload, Download Limiter

	// HonorRetryAfter makes the client back off when a server asks it to: after such a response (see
	// RetryAfter), all requests with the same Key wait for as long as the server asked. They then
	// resume at random times, spread over another tenth of that delay, so that they do not all
	// arrive at once.
	HonorRetryAfter bool

	// RetryAfter returns how long a response asks its client to wait, and false if it does not. It
	// is for servers that use other headers. nil means the Retry-After header of 429 and 503.
	RetryAfter func(*http.Response) (time.Duration, bool)

	// MaxRetryAfter is the longest delay of HonorRetryAfter, whatever the server asks. A request
	// whose response asks for a longer one is not retried. It must be at least 0. 0 means 1 minute.
	MaxRetryAfter time.Duration

	// Key returns the key of a request: HonorRetryAfter delays requests with equal keys together.
	// nil means [ByHost].
	Key func(*http.Request) string

	// Retries is the maximum number of times that a request is sent again after a response that asks
	// the client to wait (see RetryAfter). The transport waits first, even without HonorRetryAfter. It
	// does not retry if the wait is longer than MaxRetryAfter or the context's deadline allows, or if
	// the request has a body and no GetBody. Retries must be at least 0.
	Retries int
}

const defaultMaxRetryAfter = time.Minute

// Transport is an [http.RoundTripper] that takes a permit for each request, and waits for as long as
// servers ask. Create it with [NewTransport]; requests of the zero Transport fail with
// [core.ErrClosed]. It is safe for concurrent use.
type Transport struct {
	o    TransportOptions        // with the defaults
	held *backoff.Keys[struct{}] // nil without HonorRetryAfter
}

// NewTransport returns a Transport, or an error that lists all invalid options.
func NewTransport(o TransportOptions) (*Transport, error) {
	wrong := invalid.Fields{Prefix: "httplimit: TransportOptions."}
	if o.MaxRetryAfter < 0 {
		wrong.Add("MaxRetryAfter", o.MaxRetryAfter, "at least 0")
	}
	if o.Retries < 0 {
		wrong.Add("Retries", o.Retries, "at least 0")
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	o.Limiter, o.Upload, o.Download = policy.Present(o.Limiter), policy.Present(o.Upload), policy.Present(o.Download)
	if backdoor.IsNil(o.Base) {
		o.Base = http.DefaultTransport
	}
	if o.RetryAfter == nil {
		o.RetryAfter = retryAfter
	}
	if o.Key == nil {
		o.Key = ByHost
	}
	if o.MaxRetryAfter == 0 {
		o.MaxRetryAfter = defaultMaxRetryAfter
	}
	t := &Transport{o: o}
	if o.HonorRetryAfter {
		t.held = new(backoff.Keys[struct{}])
	}
	return t, nil
}

// CloseIdleConnections calls the method of Base with this name, if there is one.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.o.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends the request once no earlier response holds it back and the limiter has granted it. If the limiter
// rejects the request, RoundTrip returns the rejection unchanged, a *[core.RejectedError]. If the request's context
// ends a wait, the error is ctx.Err(). If an earlier response asked for a wait that is longer than the context's
// deadline allows, RoundTrip immediately returns a *[core.RejectedError], without sending the request; it also
// matches [context.DeadlineExceeded].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.o.Base == nil {
		closeBody(r.Body)
		return nil, fmt.Errorf("httplimit: Transport was not created with NewTransport: %w", core.ErrClosed)
	}
	held, next := t.held, r
	for sent := 1; ; sent++ {
		a, err := t.send(r, next, held)
		if err != nil {
			return nil, err
		}
		response, again := t.receive(r, a, sent)
		if response != nil {
			return response, nil
		}
		next = again
		if t.held == nil { // then the response holds back only this request
			held = new(backoff.Keys[struct{}])
			held.Hold("", a.retryAfter, struct{}{}) // before drain, which may take time
		}
		a.drain()
	}
}

// receive returns the response for the caller, or nil and the request that is to be sent again. If a function of the
// user's panics, the attempt holds nothing.
func (t *Transport) receive(r *http.Request, a *attempt, sent int) (response *http.Response, again *http.Request) {
	defer func() {
		if response == nil && again == nil {
			defer a.end()
			closeBody(a.response.Body)
		}
	}()
	if sent <= t.o.Retries && a.mayRetry(r) {
		if again, err := rewound(r); err == nil {
			return nil, again
		}
	}
	return t.deliver(r, a), nil
}

// send makes one attempt with r, which is the caller's request or a copy with its body from the beginning.
func (t *Transport) send(original, r *http.Request, held *backoff.Keys[struct{}]) (*attempt, error) {
	a, key := &attempt{transport: t}, ""
	if t.o.HonorRetryAfter {
		key = t.o.Key(r)
	}
	_, err := policy.Start(r.Context(), &a.Attempt, r, t.o.Limiter, t.o.Cost, held, key)
	if err != nil {
		closeBody(r.Body)
		var tooLong *backoff.HeldError[struct{}]
		if errors.As(err, &tooLong) {
			return nil, tooLong.Rejected
		}
		return nil, err
	}
	received := false
	defer func() {
		if !received { // RoundTrip failed, or a function panicked
			defer a.End(nil)
			if a.response != nil {
				closeBody(a.response.Body)
			}
		}
	}()
	out := t.throttled(r)
	response, err := t.o.Base.RoundTrip(out) //nolint:bodyclose // the attempt's end closes it
	if err == nil && response == nil {
		err = errors.New("httplimit: TransportOptions.Base returned neither a response nor an error")
	}
	if err != nil {
		return nil, err
	}
	a.response = response
	if response.Request == out {
		response.Request = original
	}
	if t.held != nil || t.o.Retries > 0 {
		if a.retryAfter, a.retry = t.o.RetryAfter(response); a.retry && t.held != nil {
			t.held.Hold(key, min(a.retryAfter, t.o.MaxRetryAfter), struct{}{})
		}
	}
	received = true
	return a, nil
}

// throttled returns the request with its body under Upload.
func (t *Transport) throttled(r *http.Request) *http.Request {
	if t.o.Upload == nil || !hasBody(r) {
		return r
	}
	ctx, l := r.Context(), partition.For(t.o.Upload, r)
	out := r.WithContext(ctx) // a copy: a RoundTripper may not change the caller's
	out.Body = ioreader.NewReader(ctx, r.Body, l)
	if r.GetBody != nil {
		out.GetBody = func() (io.ReadCloser, error) {
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			return ioreader.NewReader(ctx, body, l), nil
		}
	}
	return out
}

// mayRetry reports whether the response asks for a wait after which the request can be sent again.
func (a *attempt) mayRetry(r *http.Request) bool {
	if hasBody(r) && r.GetBody == nil || !a.retry || a.retryAfter > a.transport.o.MaxRetryAfter {
		return false
	}
	deadline, ok := r.Context().Deadline()
	return !ok || time.Until(deadline) > a.retryAfter
}

// rewound returns the request with its body from the beginning.
func rewound(r *http.Request) (*http.Request, error) {
	if !hasBody(r) {
		return r, nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	r = r.WithContext(r.Context())
	r.Body = body
	return r, nil
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

func closeBody(body io.Closer) {
	if body != nil {
		_ = body.Close() // its error changes nothing
	}
}

// retryAfter returns the Retry-After of a 429 or a 503.
func retryAfter(response *http.Response) (time.Duration, bool) {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	text := strings.TrimSpace(response.Header.Get("Retry-After"))
	n, err := strconv.ParseUint(text, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange), n > uint64(math.MaxInt64/time.Second):
		return math.MaxInt64, true
	case err == nil:
		return time.Duration(n) * time.Second, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return max(time.Until(at), 0), true
}
