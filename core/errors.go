package core

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrRejected is matched by every [RejectedError].
	ErrRejected = errors.New("core: rejected")

	// ErrClosed is returned by a limiter after its Close, and to callers that are waiting when
	// it is closed.
	ErrClosed = errors.New("core: limiter is closed")

	// ErrPermitsExceedLimit is matched by the error of a request that can never be served,
	// because it asks for more permits than the limit. The limiters of this package return an
	// *[ExceedsLimitError], which has the numbers.
	ErrPermitsExceedLimit = errors.New("core: more permits than the limit")

	// ErrNegativePermits is returned for a request of fewer than zero permits.
	ErrNegativePermits = errors.New("core: negative permits")
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
	Reason     string        // such as "queue limit reached"
	Detail     string        // more about Reason, such as "QueueLimit is 0"; may be empty
	RetryAfter time.Duration // time until the same request could be served; 0 if unknown
	Cause      error         // context.DeadlineExceeded if the deadline was the reason; otherwise nil
}

// Error returns a message with the limiter's name, the reason, and when to retry.
func (e *RejectedError) Error() string {
	var b strings.Builder
	b.WriteString("core: rejected")
	if e.Limiter != "" {
		b.WriteString(" by " + strconv.Quote(e.Limiter))
	}
	if e.Reason != "" {
		b.WriteString(": " + e.Reason)
	}
	if e.Detail != "" {
		b.WriteString(" (" + e.Detail + ")")
	}
	if e.RetryAfter > 0 {
		b.WriteString(", retry after " + e.RetryAfter.String())
	}
	return b.String()
}

// Is reports whether target is [ErrRejected].
func (e *RejectedError) Is(target error) bool { return target == ErrRejected }

// Unwrap returns the cause: context.DeadlineExceeded if the deadline was the reason.
func (e *RejectedError) Unwrap() error { return e.Cause }

// LogValue implements [slog.LogValuer]: a group of the fields that are set.
func (e *RejectedError) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 4)
	if e.Limiter != "" {
		attrs = append(attrs, slog.String("limiter", e.Limiter))
	}
	attrs = append(attrs, slog.Int("permits", e.Permits))
	if e.Reason != "" {
		attrs = append(attrs, slog.String("reason", e.Reason))
	}
	if e.RetryAfter > 0 {
		attrs = append(attrs, slog.Duration("retry_after", e.RetryAfter))
	}
	return slog.GroupValue(attrs...)
}

// faults collects the faults of an options value.
type faults struct {
	options string
	errs    []error
}

func (f *faults) add(field string, value any, want string) {
	f.errs = append(f.errs, fmt.Errorf("core: %s.%s = %v, want %s", f.options, field, value, want))
}

func (f *faults) atLeast(field string, value, least int) {
	if value < least {
		f.add(field, value, fmt.Sprintf("at least %d", least))
	}
}

func (f *faults) positive(field string, d time.Duration) {
	if d <= 0 {
		f.add(field, d, "above 0")
	}
}

func (f *faults) order(o QueueOrder) {
	if int(o) >= len(orderNames) {
		f.add("QueueOrder", o, orders)
	}
}

// err returns all faults in one error, or nil if there are none.
func (f *faults) err() error { return errors.Join(f.errs...) }
