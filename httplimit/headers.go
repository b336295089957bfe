package httplimit

import (
	"fmt"
	"strings"
)

// Headers are the fields with which responses tell clients of their quota.
type Headers uint8

const (
	// RetryAfterOnly sends Retry-After with rejections, as all others do too, and no more.
	RetryAfterOnly Headers = iota

	// XRateLimit sends X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, the
	// latter in seconds from now: no standard, but what is most in use. They tell of the
	// policy that has the least remaining.
	XRateLimit

	// Draft11 sends RateLimit-Policy and RateLimit for all policies that were asked, as
	// draft-ietf-httpapi-ratelimit-headers-11 has them. Later drafts name the parameters
	// otherwise.
	Draft11
)

var headersNames = [...]string{"retry-after", "x-ratelimit", "draft-11"}

// String returns "retry-after", "x-ratelimit" or "draft-11", and "Headers(n)" for anything
// else.
func (h Headers) String() string {
	if int(h) < len(headersNames) {
		return headersNames[h]
	}
	return fmt.Sprintf("Headers(%d)", uint8(h))
}

// MarshalText returns what String does; anything but the three is an error.
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
