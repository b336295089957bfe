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
	"github.com/sluice-go/sluice/internal/limit/policy"
)

// Headers are the response headers that report the quota to clients. They are set on all responses,
// granted or rejected, except redirects (3xx).
type Headers uint8

const (
	// RetryAfterOnly sends Retry-After with rejections, and no quota. The other values send both.
	RetryAfterOnly Headers = iota

	// XRateLimit sends X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, which is in
	// seconds from now. These headers are not standardized, but they are the most common ones. They
	// describe one policy: the quota with the fewest remaining permits, or, if no policy limits a rate,
	// the concurrency limit with the fewest.
	XRateLimit

	// Draft11 sends RateLimit-Policy and RateLimit for all policies that have decided, in the syntax
	// of draft-ietf-httpapi-ratelimit-headers-11. Later drafts use other parameter names.
	//
	// The parameter r is the number of remaining permits, and t is the time until there are more.
	// After a grant, t is the time until the whole quota is available again. After a rejection, it is
	// the same as Retry-After, which can be much sooner, because some permits are returned before the
	// others. The draft does not allow a Retry-After that is earlier than t.
	//
	// On a rejection, neither kind of header counts the permits that other policies of the same handler
	// had granted, because they are refunded.
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
	limit, remaining int
	rejects          bool

	window, reset, retry time.Duration // below 0 if unknown; retry is for the draft's t
}

// usageOf returns the usage of d's limiter. If the request was rejected, its permits have already been refunded.
func usageOf(d *decision, rejected bool) (n usage, ok bool) {
	if d.Policy.Shadow || d.Limiter == nil {
		return n, false
	}
	n.rejects = !d.Lease.Acquired()
	n.limit, ok = core.PermitLimit.From(d.Lease)
	if !ok {
		return n, false
	}
	n.remaining, ok = core.Remaining.From(d.Lease)
	n.window, n.reset = durationOf(core.Window, d.Lease), durationOf(core.ResetAfter, d.Lease)
	n.retry = durationOf(core.RetryAfter, d.Lease)
	exceeds := errors.Is(d.Lease.Err(), core.ErrPermitsExceedLimit)
	switch {
	case exceeds: // the limiter has only looked at its limit
		n.remaining, ok = d.Limiter.Available(), true
	case rejected && d.Lease.Acquired():
		n.remaining += min(d.Lease.Permits(), n.limit-n.remaining)
	}
	if n.remaining >= n.limit && (exceeds && n.window >= 0 || n.reset > 0) {
		n.reset = 0
	}
	if d.Lease.Acquired() || exceeds {
		n.retry = n.reset
	}
	n.remaining = max(n.remaining, 0)
	return n, ok
}

func durationOf(key core.MetadataKey[time.Duration], l core.Lease) time.Duration {
	if d, ok := key.From(l); ok {
		return max(d, 0)
	}
	return -1
}

// isQuota reports whether the limiter limits a rate.
func (n usage) isQuota() bool { return n.window >= 0 || n.reset >= 0 }

// before reports whether the headers for one policy describe n instead of m: a quota before a concurrency limit, and of
// two quotas the one with fewer remaining permits, or the one that rejects.
func (n usage) before(m usage) bool {
	if n.isQuota() != m.isQuota() {
		return n.isQuota()
	}
	return n.remaining < m.remaining || n.remaining == m.remaining && n.rejects && !m.rejects
}

// xRateLimit describes one policy, which may be that of an outer wrapper.
func xRateLimit(h http.Header, decisions []decision, rejected bool) quota {
	shown, found := outerUsage(h)
	here := false // whether a policy of this wrapper is shown
	for i := range decisions {
		if n, ok := usageOf(&decisions[i], rejected); ok && (!found || n.before(shown)) {
			shown, found, here = n, true, true
		}
	}
	if !here {
		return nil
	}
	q := quota{{fieldLimit, strconv.Itoa(shown.limit)}, {fieldRemaining, strconv.Itoa(shown.remaining)}}
	if shown.reset >= 0 {
		q = append(q, field{fieldReset, strconv.FormatInt(secondsUp(shown.reset), 10)})
	}
	return q
}

// outerUsage returns the usage that the headers already describe. It has a reset if it is that of a quota.
func outerUsage(h http.Header) (n usage, found bool) {
	remaining, err := strconv.Atoi(h.Get(fieldRemaining))
	n = usage{remaining: remaining, window: -1, reset: -1}
	if h[fieldReset] != nil {
		n.reset = 0
	}
	return n, err == nil
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
		if n.window >= 0 {
			unit = ";w=" + integer(max(secondsUp(n.window), 1)) // rounding down would announce a higher rate
		}
		policies = append(policies, name+";q="+integer(int64(n.limit))+unit)
		limit := name + ";r=" + integer(int64(n.remaining))
		if n.retry >= 0 {
			limit += ";t=" + integer(secondsUp(n.retry))
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
