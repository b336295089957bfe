package httplimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/partition"
)

// TransportOptions are what [NewTransport] makes a Transport of. The zero value changes
// nothing about Base.
type TransportOptions struct {
	// Base sends the requests. nil: http.DefaultTransport.
	Base http.RoundTripper

	// Limiter gives a permit for each attempt to send a request. The lease is held until the
	// response's body has ended or is closed. nil: unlimited.
	Limiter Limiter

	// Permits is what a request costs. nil: 1. 0 or less: this request is not limited.
	Permits func(*http.Request) int

	// Upload and Download throttle the bodies of requests and of responses: their permits
	// are bytes. nil: unlimited. What follows an upgrade (101) is not throttled.
	Upload, Download Limiter

	// Obey holds the requests of one Key back for as long as the server's last answer said:
	// by Retry-After with 429 or 503, or else by a RateLimit field with nothing left.
	Obey bool

	// MaxObey is the longest time that a server is believed, at least 0. 0: 1 min.
	MaxObey time.Duration

	// Key tells which requests Obey holds back together. nil: [ByHost].
	Key func(*http.Request) string

	// Retries is how many times a request that is answered 429 or 503 with Retry-After is
	// sent again, at least 0, if it has no body or a GetBody.
	Retries int
}

const defaultMaxObey = time.Minute

// Transport is an [http.RoundTripper] that takes a permit for each request, and obeys what
// servers say of their limits. Make it with [NewTransport]. It is safe for concurrent use.
type Transport struct {
	o     TransportOptions // as given, but for the defaults
	holds holds
}

// NewTransport returns a Transport, or what is wrong with the options, all at once.
func NewTransport(o TransportOptions) (*Transport, error) {
	var errs []error
	if o.MaxObey < 0 {
		errs = append(errs, fmt.Errorf("httplimit: TransportOptions.MaxObey = %v, want at least 0", o.MaxObey))
	}
	if o.Retries < 0 {
		errs = append(errs, fmt.Errorf("httplimit: TransportOptions.Retries = %d, want at least 0", o.Retries))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	o.Limiter, o.Upload, o.Download = present(o.Limiter), present(o.Upload), present(o.Download)
	if argument.IsNil(o.Base) {
		o.Base = http.DefaultTransport
	}
	if o.Key == nil {
		o.Key = ByHost
	}
	if o.MaxObey == 0 {
		o.MaxObey = defaultMaxObey
	}
	return &Transport{o: o}, nil
}

// CloseIdleConnections closes those of Base, if it can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.o.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends the request once it may: when the server's last answer does not hold it
// back, and the limiter has granted it. A refusal by the limiter is returned as it is, a
// *[core.RejectedError]; so is ctx.Err(), if the request's context ends a wait. A server
// that asks for a longer wait than the context's deadline allows makes it a
// *[core.RejectedError] too, at once, which is also a [context.DeadlineExceeded].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.o.Base == nil {
		closeBody(r.Body)
		return nil, errors.New("httplimit: a Transport that NewTransport did not make")
	}
	next := r
	for attempt := 0; ; attempt++ {
		response, lease, err := t.send(next)
		if err != nil {
			return nil, err
		}
		wait, again := t.again(r, response, attempt)
		if !again {
			return t.hand(r, response, lease), nil
		}
		if next, err = renewed(r); err != nil {
			return t.hand(r, response, lease), nil //nolint:nilerr // what cannot be sent again has its answer
		}
		drain(response, lease)
		if err = sleep(r.Context(), wait, nil); err != nil {
			closeBody(next.Body)
			return nil, err
		}
	}
}

// send makes one attempt. The lease of a request that was sent is the caller's.
func (t *Transport) send(r *http.Request) (*http.Response, core.Lease, error) {
	key := ""
	if t.o.Obey {
		key = t.o.Key(r)
	}
	lease, err := t.admit(r, key)
	if err != nil {
		closeBody(r.Body)
		return nil, core.Lease{}, err
	}
	sent := false
	defer func() {
		if !sent { // it failed, or panicked
			lease.Release()
		}
	}()
	out := t.throttled(r)
	response, err := t.o.Base.RoundTrip(out)
	if err == nil && response == nil {
		err = errors.New("httplimit: TransportOptions.Base returned neither a response nor an error")
	}
	if err != nil {
		return nil, core.Lease{}, err
	}
	if response.Request == out {
		response.Request = r
	}
	if t.o.Obey {
		if d, ok := hint(response); ok {
			t.holds.hold(key, min(d, t.o.MaxObey))
		}
	}
	sent = true
	return response, lease, nil
}

// admit waits until the server's last answer lets the request go, and takes its permits.
func (t *Transport) admit(r *http.Request, key string) (core.Lease, error) {
	ctx, permits := r.Context(), 1
	if t.o.Permits != nil {
		permits = t.o.Permits(r)
	}
	limited := t.o.Limiter != nil && permits > 0
	var l core.Limiter
	if limited {
		l = partition.For(t.o.Limiter, r)
	}
	for {
		if t.o.Obey {
			if err := t.holds.wait(ctx, key, permits); err != nil {
				return core.Lease{}, err
			}
		}
		if !limited {
			return core.Lease{}, nil
		}
		lease, err := l.Acquire(ctx, permits)
		if lease, err = limiter.Checked(l, lease, err); err != nil {
			return core.Lease{}, err
		}
		// While this waited for permits, another answer may have come.
		if !t.o.Obey || !t.holds.holds(key) {
			return lease, nil
		}
		limiter.Refund(l, lease)
	}
}

// throttled returns the request with its body under Upload.
func (t *Transport) throttled(r *http.Request) *http.Request {
	if t.o.Upload == nil || !hasBody(r) {
		return r
	}
	ctx, under := r.Context(), []Limiter{t.o.Upload}
	out := copyOf(r)
	out.Body = throttledBody(ctx, r.Body, r, under)
	if r.GetBody != nil {
		out.GetBody = func() (io.ReadCloser, error) {
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			return throttledBody(ctx, body, r, under), nil
		}
	}
	return out
}

// again reports whether the request is to be sent again, and after which time.
func (t *Transport) again(r *http.Request, response *http.Response, attempts int) (time.Duration, bool) {
	if attempts >= t.o.Retries || hasBody(r) && r.GetBody == nil {
		return 0, false
	}
	d, ok := retryAfter(response)
	if !ok || d > t.o.MaxObey {
		return 0, false
	}
	spread := d / 10
	if deadline, ok := r.Context().Deadline(); ok {
		left := time.Until(deadline)
		if d >= left {
			return 0, false
		}
		spread = min(spread, (left-d)/2) // the rest is for the answer
	}
	jitter := time.Duration(rand.Int64N(int64(spread) + 1)) //nolint:gosec // it keeps a herd apart, and no secret
	return d + jitter, true
}

// renewed returns the request with a body that was not read.
func renewed(r *http.Request) (*http.Request, error) {
	if !hasBody(r) {
		return r, nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	r = copyOf(r)
	r.Body = body
	return r, nil
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

func closeBody(body io.Closer) {
	if body != nil {
		_ = body.Close() // nothing was done with it
	}
}

// sleep waits for d, until sooner is closed, or until ctx ends, which is an error.
func sleep(ctx context.Context, d time.Duration, sooner <-chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-sooner:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
