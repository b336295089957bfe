package core

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/internal/invalid"
)

var (
	// ErrRejected is matched by every [RejectedError].
	ErrRejected = errors.New("core: rejected")

	// ErrClosed is returned by a limiter after its Close, and to callers that are waiting when
	// it is closed.
	ErrClosed = errors.New("core: limiter is closed")

	// ErrPermitsExceedLimit is matched by the error of a request that can never be served, because
	// it requests more permits than the limit. The limiters of this package return an
	// *[ExceedsLimitError], which has the numbers.
	ErrPermitsExceedLimit = errors.New("core: more permits than the limit")

	// ErrNegativePermits is returned for a request of fewer than zero permits.
	ErrNegativePermits = errors.New("core: negative permits")
)

// The phrases of [ReasonPhrase] and [RejectedError].Reason for rejections by core's limiters.
const (
	ReasonExhausted       = "permits exhausted"
	ReasonQueueLimit      = "queue limit reached"
	ReasonEvicted         = "evicted by a newer request"
	ReasonDeadlineTooSoon = "deadline too soon"
)

// ExceedsLimitError is the error of a request for more permits than the limit, which can never
// be served. errors.Is(err, [ErrPermitsExceedLimit]) is true for it.
type ExceedsLimitError struct {
	Limiter string // Options.Name of the limiter; "" if it has none
	Permits int    // permits requested
	Limit   int    // the limit at the time
}

// Error returns a message with the number of permits, the limit and the limiter's name.
func (e *ExceedsLimitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "core: %d permits are more than the limit of %d", e.Permits, e.Limit)
	if e.Limiter != "" {
		fmt.Fprintf(&b, " of %q", e.Limiter)
	}
	return b.String()
}

// Is reports whether target is [ErrPermitsExceedLimit].
func (e *ExceedsLimitError) Is(target error) bool { return target == ErrPermitsExceedLimit }

// LogValue implements [slog.LogValuer]: a group of the fields that are set.
func (e *ExceedsLimitError) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 3)
	if e.Limiter != "" {
		attrs = append(attrs, slog.String("limiter", e.Limiter))
	}
	attrs = append(attrs, slog.Int("permits", e.Permits), slog.Int("limit", e.Limit))
	return slog.GroupValue(attrs...)
}

// RejectedError is the error of a request that a limiter rejected but could grant at another
// time.
//
// errors.Is(err, ErrRejected) is always true. errors.Is(err, context.DeadlineExceeded) is also true
// if the wait would have outlasted the context's deadline.
type RejectedError struct {
	Limiter    string        // Options.Name of the limiter that rejected; "" if it has none
	Permits    int           // permits requested
	Limit      int           // the limit at the time; 0 if unknown
	Available  int           // permits that were available; unknown if Limit is 0
	Reason     string        // such as "queue limit reached"
	Detail     string        // more about Reason, such as "QueueLimit is 0"; may be empty
	RetryAfter time.Duration // time until the same request could be served; 0 if unknown
	Cause      error         // context.DeadlineExceeded if the deadline was the reason; otherwise nil
}

// Error returns a message with the limiter's name, the permits requested, how many of the limit were
// available, any other reason, and when to retry, in two digits:
//
//	core: "api" rejected 3 permits: 2 of 10 available, retry after 4.7s
func (e *RejectedError) Error() string {
	var b strings.Builder
	b.WriteString("core: ")
	if e.Limiter != "" {
		b.WriteString(strconv.Quote(e.Limiter) + " ")
	}
	b.WriteString("rejected")
	if e.Permits != 0 || e.Limit > 0 {
		b.WriteString(" " + permitsText(e.Permits))
	}
	separator := ": "
	add := func(parts ...string) {
		b.WriteString(separator + strings.Join(parts, ""))
		separator = ", "
	}
	if e.Limit > 0 {
		add(strconv.Itoa(e.Available), " of ", strconv.Itoa(e.Limit), " available")
	}
	if e.Reason != "" && (e.Reason != ReasonExhausted || e.Limit == 0) {
		add(e.Reason)
	}
	if e.Detail != "" {
		b.WriteString(" (" + e.Detail + ")")
	}
	if e.RetryAfter > 0 {
		separator = strings.Replace(separator, ":", ",", 1)
		add("retry after ", twoDigits(e.RetryAfter))
	}
	return b.String()
}

func permitsText(n int) string {
	if n == 1 {
		return "1 permit"
	}
	return strconv.Itoa(n) + " permits"
}

// twoDigits returns a duration rounded to two digits.
func twoDigits(d time.Duration) string {
	if d < time.Minute {
		scale := time.Duration(1)
		for d >= 100*scale {
			scale *= 10
		}
		if d = d.Round(scale); d < time.Minute {
			return d.String()
		}
	}
	x, unit := d.Minutes(), "m"
	if d >= time.Hour {
		x, unit = d.Hours(), "h"
	}
	if x >= 10 {
		return strconv.FormatFloat(x, 'f', 0, 64) + unit
	}
	return strconv.FormatFloat(x, 'g', 2, 64) + unit
}

// Is reports whether target is [ErrRejected].
func (e *RejectedError) Is(target error) bool { return target == ErrRejected }

// Unwrap returns the cause: context.DeadlineExceeded if the deadline was the reason.
func (e *RejectedError) Unwrap() error { return e.Cause }

// LogValue implements [slog.LogValuer]: a group of the fields that are set.
func (e *RejectedError) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 8)
	add := func(set bool, a slog.Attr) {
		if set {
			attrs = append(attrs, a)
		}
	}
	add(e.Limiter != "", slog.String("limiter", e.Limiter))
	add(true, slog.Int("permits", e.Permits))
	add(e.Limit > 0, slog.Int("limit", e.Limit))
	add(e.Limit > 0, slog.Int("available", e.Available))
	add(e.Reason != "", slog.String("reason", e.Reason))
	add(e.Detail != "", slog.String("detail", e.Detail))
	add(e.RetryAfter > 0, slog.Duration("retry_after", e.RetryAfter))
	add(e.Cause != nil, slog.Any("cause", e.Cause))
	return slog.GroupValue(attrs...)
}

// faults collects the invalid fields of an options value.
type faults struct{ invalid.Fields }

// faultsOf returns the faults of options of this type, none yet.
func faultsOf(options string) faults {
	return faults{invalid.Fields{Prefix: "core: " + options + "."}}
}

func (f *faults) atLeast(field string, value, least int) {
	if value < least {
		f.Add(field, value, fmt.Sprintf("at least %d", least))
	}
}

func (f *faults) positive(field string, d time.Duration) {
	if d <= 0 {
		f.Add(field, d, "above 0")
	}
}

func (f *faults) order(o QueueOrder) {
	if int(o) >= len(orderNames) {
		f.Add("QueueOrder", o, orders)
	}
}
