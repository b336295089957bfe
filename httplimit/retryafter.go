package httplimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter returns the Retry-After of a 429 or a 503.
func retryAfter(response *http.Response) (time.Duration, bool) {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	text := strings.TrimSpace(response.Header.Get("Retry-After"))
	if digits(text) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > int64(math.MaxInt64/time.Second) {
			return math.MaxInt64, true
		}
		return time.Duration(n) * time.Second, true
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
