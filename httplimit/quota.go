package httplimit

import (
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
)

// quota is the header fields that tell a client of its quota, with their values.
type quota []field

type field struct{ name, value string }

const (
	fieldLimit     = "X-Ratelimit-Limit"
	fieldRemaining = "X-Ratelimit-Remaining"
	fieldReset     = "X-Ratelimit-Reset"
	fieldPolicy    = "Ratelimit-Policy"
	fieldRateLimit = "Ratelimit"
)

// tell sets the header fields for all that has been asked, in place of those that it set
// before.
func (v *visit) tell(h http.Header) {
	if v.terms.Headers == RetryAfterOnly {
		return
	}
	v.lock()
	defer v.unlock()
	more := v.rest()
	more.quota.takeOff(h)
	if v.terms.Headers == Draft11 {
		more.quota = draft11(v.each)
	} else {
		more.quota = xRateLimit(v.each)
	}
	for _, f := range more.quota {
		h[f.name] = []string{f.value}
	}
}

// untell takes the header fields off again.
func (v *visit) untell(h http.Header) {
	v.lock()
	defer v.unlock()
	if v.more != nil {
		v.more.quota.takeOff(h)
		v.more.quota = nil
	}
}

// takeOff removes the fields, but not those that somebody has set otherwise since.
func (q quota) takeOff(h http.Header) {
	for _, f := range q {
		if values := h[f.name]; len(values) == 1 && values[0] == f.value {
			delete(h, f.name)
		}
	}
}

// xRateLimit tells of the policy that has the least remaining; of several, of the one that
// refused, or else of the first.
func xRateLimit(asks iter.Seq[*ask]) quota {
	var least core.Lease
	limit, remaining, found := 0, 0, false
	for a := range asks {
		l, r, ok := figures(a.lease)
		if ok && (!found || r < remaining || r == remaining && !a.lease.Acquired()) {
			least, limit, remaining, found = a.lease, l, r, true
		}
	}
	if !found {
		return nil
	}
	q := quota{{fieldLimit, strconv.Itoa(limit)}, {fieldRemaining, strconv.Itoa(remaining)}}
	if reset, ok := core.ResetAfter.From(least); ok {
		q = append(q, field{fieldReset, strconv.FormatInt(secondsUp(reset), 10)})
	}
	return q
}

// figures returns what the lease tells of its limiter's limit and of what remains.
func figures(l core.Lease) (limit, remaining int, ok bool) {
	limit, ok = core.PermitLimit.From(l)
	if !ok {
		return 0, 0, false
	}
	remaining, ok = core.Remaining.From(l)
	return limit, max(remaining, 0), ok
}

// draft11 writes two lists of structured fields, RFC 9651: strings with parameters. The
// names of policies need no escapes.
func draft11(asks iter.Seq[*ask]) quota {
	var policies, limits strings.Builder
	for a := range asks {
		limit, remaining, ok := figures(a.lease)
		if !ok {
			continue
		}
		item(&policies, a.policy.Name)
		parameter(&policies, "q", int64(limit))
		if window, ok := core.Window.From(a.lease); !ok {
			policies.WriteString(`;qu="concurrent-requests"`)
		} else if window >= time.Second {
			parameter(&policies, "w", int64(window/time.Second))
		}
		item(&limits, a.policy.Name)
		parameter(&limits, "r", int64(remaining))
		until, ok := core.ResetAfter.From(a.lease)
		if !a.lease.Acquired() {
			until, ok = core.RetryAfter.From(a.lease)
		}
		if ok {
			parameter(&limits, "t", secondsUp(until))
		}
	}
	if policies.Len() == 0 {
		return nil
	}
	return quota{{fieldPolicy, policies.String()}, {fieldRateLimit, limits.String()}}
}

func item(b *strings.Builder, name string) {
	if b.Len() > 0 {
		b.WriteString(", ")
	}
	b.WriteByte('"')
	b.WriteString(name)
	b.WriteByte('"')
}

// largestInteger is the largest that a structured field can hold.
const largestInteger = 999_999_999_999_999

func parameter(b *strings.Builder, name string, value int64) {
	b.WriteByte(';')
	b.WriteString(name)
	b.WriteByte('=')
	b.WriteString(strconv.FormatInt(min(value, largestInteger), 10))
}

// secondsUp returns whole seconds, rounded up.
func secondsUp(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}
