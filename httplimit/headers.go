package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/policy"
)

// Headers are the response headers that report the quota to clients. They are set on all responses,
// granted or rejected, except redirects (3xx).
type Headers uint8

const (
	// RetryAfterOnly sends Retry-After with rejections, and no quota. The other values send both.
	RetryAfterOnly Headers = iota

	// XRateLimit sends X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, which is in
	// seconds from now. These headers are not standardized, but they are the most common ones. They
	// describe the policy with the fewest remaining permits.
	XRateLimit

	// Draft11 sends RateLimit-Policy and RateLimit for all policies that have decided, in the syntax
	// of draft-ietf-httpapi-ratelimit-headers-11. Later drafts use other parameter names.
	//
	// The parameter r is the number of remaining permits, and t is the time until there are more.
	// After a grant, t is the time until the whole quota is available again. After a rejection, it is
	// the same as Retry-After, which can be much sooner, because some permits come back before the
	// others. The draft does not allow a Retry-After that is earlier than t.
	Draft11
)

var headersNames = [...]string{"retry-after", "x-ratelimit", "draft-11"}

// String returns "retry-after", "x-ratelimit" or "draft-11", and "Headers(n)" for any other value.
func (h Headers) String() string {
	if int(h) < len(headersNames) {
		return headersNames[h]
	}
	return fmt.Sprintf("Headers(%d)", uint8(h))
}

// MarshalText returns the same text as String, or an error for any other value.
func (h Headers) MarshalText() ([]byte, error) {
	if int(h) >= len(headersNames) {
		return nil, fmt.Errorf("httplimit: Headers = %v, want one of %s", h, strings.Join(headersNames[:], ", "))
	}
	return []byte(headersNames[h]), nil
}

// UnmarshalText reads the output of MarshalText. If it returns an error, h does not change.
func (h *Headers) UnmarshalText(text []byte) error {
	for i, name := range headersNames {
		if string(text) == name {
			*h = Headers(i)
			return nil
		}
	}
	return fmt.Errorf("httplimit: Headers = %q, want one of %s", text, strings.Join(headersNames[:], ", "))
}

// quota is the headers that report the quota to a client, with the values that were set.
type quota []field

type field struct{ name, value string }

const (
	fieldLimit     = "X-Ratelimit-Limit"
	fieldRemaining = "X-Ratelimit-Remaining"
	fieldReset     = "X-Ratelimit-Reset"
	fieldPolicy    = "Ratelimit-Policy"
	fieldRateLimit = "Ratelimit"
)

// setQuota sets the headers for the policies that have decided, in addition to those of outer wrappers, and returns
// them. If the request was rejected, its permits have already been refunded.
func setQuota(h http.Header, decisions []decision, rejected bool) (q quota) {
	switch headersOf(decisions) {
	case XRateLimit:
		q = xRateLimit(h, decisions, rejected)
	case Draft11:
		q = draft11(h, decisions, rejected)
	}
	for _, f := range q {
		h[f.name] = []string{f.value}
	}
	return q
}

// headersOf returns Options.Headers, if there are decisions.
func headersOf(decisions []decision) Headers {
	if len(decisions) == 0 {
		return RetryAfterOnly
	}
	return decisions[0].Policy.Own.options.Headers
}

// removeFromRedirect removes the headers from a redirect, unless a handler has changed them. It is called before the
// status is sent.
func (q quota) removeFromRedirect(h http.Header, status int) {
	if status < 300 || status > 399 {
		return
	}
	for _, f := range q {
		if values := h[f.name]; len(values) == 1 && values[0] == f.value {
			delete(h, f.name)
		}
	}
}

// decision is the decision of a policy about a request.
type decision = policy.Decision[*http.Request, *ownPolicy]

// usage is the state of a limiter, as its lease reports it.
type usage struct {
	lease            core.Lease
	limit, remaining int
}

// usageOf returns the usage of d's limiter. If the request was rejected, its permits have already been refunded.
func usageOf(d *decision, rejected bool) (n usage, ok bool) {
	if d.Policy.Shadow || d.Limiter == nil {
		return n, false
	}
	n.lease = d.Lease
	if rejected && d.Lease.Acquired() || errors.Is(d.Lease.Err(), core.ErrPermitsExceedLimit) {
		n.lease = d.Limiter.TryAcquire(0) // the lease does not report what remains now
		defer n.lease.Release()
	}
	if n.limit, ok = core.PermitLimit.From(n.lease); !ok {
		return n, false
	}
	n.remaining, ok = core.Remaining.From(n.lease)
	n.remaining = max(n.remaining, 0)
	return n, ok
}

// xRateLimit describes the policy with the fewest remaining permits. If there are several, it describes the one that
// rejected the request, or the first.
func xRateLimit(h http.Header, decisions []decision, rejected bool) quota {
	var least usage
	found := false
	outside, err := strconv.Atoi(h.Get(fieldRemaining))
	for i := range decisions {
		n, ok := usageOf(&decisions[i], rejected)
		if !ok {
			continue
		}
		rejects := !decisions[i].Lease.Acquired()
		if err == nil && (outside < n.remaining || outside == n.remaining && !rejects) {
			continue
		}
		if !found || n.remaining < least.remaining || n.remaining == least.remaining && rejects {
			least, found = n, true
		}
	}
	if !found {
		return nil
	}
	delete(h, fieldReset) // an outer wrapper's
	q := quota{{fieldLimit, strconv.Itoa(least.limit)}, {fieldRemaining, strconv.Itoa(least.remaining)}}
	if reset, ok := core.ResetAfter.From(least.lease); ok {
		q = append(q, field{fieldReset, strconv.FormatInt(secondsUp(reset), 10)})
	}
	return q
}

// draft11 describes all policies in two lists of structured fields (RFC 9651), which are strings with parameters. Names
// of policies need no escaping.
func draft11(h http.Header, decisions []decision, rejected bool) quota {
	var policies, limits []string
	for i := range decisions {
		d := &decisions[i]
		n, ok := usageOf(d, rejected)
		if !ok {
			continue
		}
		name := `"` + d.Policy.Name + `"`
		unit := `;qu="concurrent-requests"`
		if window, ok := core.Window.From(n.lease); ok {
			unit = ";w=" + integer(max(secondsUp(window), 1)) // rounding down would announce a higher rate
		}
		policies = append(policies, name+";q="+integer(int64(n.limit))+unit)
		limit := name + ";r=" + integer(int64(n.remaining))
		until, ok := core.ResetAfter.From(n.lease)
		if !n.lease.Acquired() {
			until, ok = core.RetryAfter.From(n.lease)
		}
		if ok {
			limit += ";t=" + integer(secondsUp(until))
		}
		limits = append(limits, limit)
	}
	if policies == nil {
		return nil
	}
	list := func(name string, here []string) field {
		return field{name, strings.Join(slices.Concat(h[name], here), ", ")}
	}
	return quota{list(fieldPolicy, policies), list(fieldRateLimit, limits)}
}

// integer formats n, limited to the largest integer of a structured field.
func integer(n int64) string { return strconv.FormatInt(min(n, 999_999_999_999_999), 10) }

// secondsUp returns whole seconds, rounded up.
func secondsUp(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}
