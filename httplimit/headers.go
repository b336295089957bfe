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

// Headers are the header fields in which responses report the quota to clients. They are on granted
// and rejected responses alike, except redirects (3xx).
type Headers uint8

const (
	// RetryAfterOnly sends Retry-After with rejections, and no quota. The others send both.
	RetryAfterOnly Headers = iota

	// XRateLimit sends X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, which is in
	// seconds from now: not a standard, but the most common. They describe the policy that has the
	// least remaining.
	XRateLimit

	// Draft11 sends RateLimit-Policy and RateLimit for all policies that have decided, in the syntax
	// of draft-ietf-httpapi-ratelimit-headers-11. Later drafts use other parameter names.
	//
	// The parameter t is the time for which r is all that is left. After a grant that is the time
	// until the whole quota is back. After a rejection it is the time until Retry-After, which can
	// be much sooner, as some permits come back before the others: the draft demands that
	// Retry-After is not earlier than t.
	Draft11
)

var headersNames = [...]string{"retry-after", "x-ratelimit", "draft-11"}

// String returns "retry-after", "x-ratelimit" or "draft-11", and "Headers(n)" for anything else.
func (h Headers) String() string {
	if int(h) < len(headersNames) {
		return headersNames[h]
	}
	return fmt.Sprintf("Headers(%d)", uint8(h))
}

// MarshalText returns what String does, and an error for anything but the three.
func (h Headers) MarshalText() ([]byte, error) {
	if int(h) >= len(headersNames) {
		return nil, fmt.Errorf("httplimit: Headers = %v, want one of %s", h, strings.Join(headersNames[:], ", "))
	}
	return []byte(headersNames[h]), nil
}

// UnmarshalText reads what MarshalText writes. On an error it leaves h as it is.
func (h *Headers) UnmarshalText(text []byte) error {
	for i, name := range headersNames {
		if string(text) == name {
			*h = Headers(i)
			return nil
		}
	}
	return fmt.Errorf("httplimit: Headers = %q, want one of %s", text, strings.Join(headersNames[:], ", "))
}

// quota is the header fields that report its quota to a client, with the values that were set.
type quota []field

type field struct{ name, value string }

const (
	fieldLimit     = "X-Ratelimit-Limit"
	fieldRemaining = "X-Ratelimit-Remaining"
	fieldReset     = "X-Ratelimit-Reset"
	fieldPolicy    = "Ratelimit-Policy"
	fieldRateLimit = "Ratelimit"
)

// setQuota sets the fields for the policies that have decided, next to what wrappers outside have
// set, and returns them. If the request was rejected, its permits have been refunded.
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

// begin removes the fields from a redirect, where they do not belong, except fields that somebody has
// changed. It is called before the status is sent.
func (q quota) begin(h http.Header, status int) {
	if status < 300 || status > 399 {
		return
	}
	for _, f := range q {
		if values := h[f.name]; len(values) == 1 && values[0] == f.value {
			delete(h, f.name)
		}
	}
}

// decision is what a policy has decided about a request.
type decision = policy.Decision[*http.Request, *ownPolicy]

// numbers are what a lease says of its limiter.
type numbers struct {
	lease            core.Lease
	limit, remaining int
}

// numbersOf returns those of d. If the request was rejected, its permits have been given back.
func numbersOf(d *decision, rejected bool) (n numbers, ok bool) {
	if d.Policy.Shadow || d.Limiter == nil {
		return n, false
	}
	n.lease = d.Lease
	if rejected && d.Lease.Acquired() || errors.Is(d.Lease.Err(), core.ErrPermitsExceedLimit) {
		n.lease = d.Limiter.TryAcquire(0) // the lease does not say what is left now
		defer n.lease.Release()
	}
	if n.limit, ok = core.PermitLimit.From(n.lease); !ok {
		return n, false
	}
	n.remaining, ok = core.Remaining.From(n.lease)
	n.remaining = max(n.remaining, 0)
	return n, ok
}

// xRateLimit is about the policy that has the least remaining; of several, about the one that
// rejected, or else the first.
func xRateLimit(h http.Header, decisions []decision, rejected bool) quota {
	var least numbers
	found := false
	outside, err := strconv.Atoi(h.Get(fieldRemaining))
	for i := range decisions {
		n, ok := numbersOf(&decisions[i], rejected)
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
	delete(h, fieldReset) // that of a wrapper outside
	q := quota{{fieldLimit, strconv.Itoa(least.limit)}, {fieldRemaining, strconv.Itoa(least.remaining)}}
	if reset, ok := core.ResetAfter.From(least.lease); ok {
		q = append(q, field{fieldReset, strconv.FormatInt(secondsUp(reset), 10)})
	}
	return q
}

// draft11 is about all policies: two lists of structured fields (RFC 9651), which are strings with parameters. The
// names of policies need no escapes.
func draft11(h http.Header, decisions []decision, rejected bool) quota {
	var policies, limits []string
	for i := range decisions {
		d := &decisions[i]
		n, ok := numbersOf(d, rejected)
		if !ok {
			continue
		}
		name := `"` + d.Policy.Name + `"`
		unit := `;qu="concurrent-requests"`
		if window, ok := core.Window.From(n.lease); ok {
			unit = ";w=" + integer(max(secondsUp(window), 1)) // rounded down it would announce a higher rate
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

// integer returns n as a structured field can hold it.
func integer(n int64) string { return strconv.FormatInt(min(n, 999_999_999_999_999), 10) }

// secondsUp returns whole seconds, rounded up.
func secondsUp(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}
