package httplimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// hint returns how long the server asks to be left alone: by Retry-After, or else by the
// RateLimit item with nothing left that lasts longest.
func hint(response *http.Response) (time.Duration, bool) {
	if d, ok := retryAfter(response); ok {
		return d, true
	}
	lines := response.Header[fieldRateLimit]
	if len(lines) == 0 {
		return 0, false
	}
	items, _ := parseList(strings.Join(lines, ","))
	longest, found := time.Duration(0), false
	for _, parameters := range items {
		// r and t are draft 11's names, a and w those of later ones.
		for _, names := range [][2]string{{"r", "t"}, {"a", "w"}} {
			left, ok := parameters[names[0]]
			if !ok || left != 0 {
				continue
			}
			if t, ok := parameters[names[1]]; ok && t >= 0 {
				longest, found = max(longest, seconds(t)), true
			}
		}
	}
	return longest, found
}

// retryAfter returns the Retry-After of a 429 or a 503.
func retryAfter(response *http.Response) (time.Duration, bool) {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	text := strings.TrimSpace(response.Header.Get("Retry-After"))
	if digits(text) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil { // more than there are
			n = math.MaxInt64
		}
		return seconds(n), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return max(time.Until(at), 0), true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// seconds returns n seconds, n at least 0, or the longest time there is.
func seconds(n int64) time.Duration {
	if n > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Second
}
