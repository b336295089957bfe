package httplimit

import (
	"fmt"
	"strings"
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
