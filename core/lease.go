package core

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Acquired reports whether the permits were granted. It stays true after Release.
func (l Lease) Acquired() bool {
	return l.outcome().acquired()
}

// Permits returns how many permits were granted: 0 for a request of zero permits, and 0 if the
// lease was not acquired.
func (l Lease) Permits() int {
	if !l.Acquired() {
		return 0
	}
	return l.permits()
}

// Release returns the permits of a concurrency limiter. It does so once: later calls, on any copy of
// the lease and from any goroutine, do nothing. If the lease holds nothing, Release does nothing,
// because the permits of a rate limiter are returned only with time. It may be called after the
// limiter's Close.
func (l Lease) Release() {
	if l.outcome() == held {
		l.release()
	}
}

// Err returns nil if the lease was acquired. Otherwise it returns the reason: a *[RejectedError], [ErrClosed],
// [ErrNegativePermits], an *[ExceedsLimitError] (which matches [ErrPermitsExceedLimit]), or the error that the limiter
// passed to [Fail]. For the zero Lease it is a *RejectedError without a reason.
func (l Lease) Err() error {
	if l.Acquired() {
		return nil
	}
	if x := l.extra(); x != nil && x.err != nil {
		return x.err
	}
	switch l.outcome() {
	case closed:
		return ErrClosed
	case exceeds:
		e := &ExceedsLimitError{Permits: l.permits()}
		if s := l.settings(); s != nil {
			e.Limiter, e.Limit = s.name, s.Most()
		}
		return e
	case negative:
		return ErrNegativePermits
	}
	e := new(RejectedError)
	l.explain(e)
	return e
}

// String returns a human-readable line: what was granted and by which limiter, or why it was
// not.
func (l Lease) String() string {
	if err := l.Err(); err != nil {
		return "no lease: " + strings.TrimPrefix(err.Error(), "core: ")
	}
	s := fmt.Sprintf("lease of %d permits", l.Permits())
	if l.Permits() == 1 {
		s = "lease of 1 permit"
	}
	if name, ok := LimiterName.From(l); ok {
		s += fmt.Sprintf(" of %q", name)
	}
	return s
}

// rejected reports whether the lease counts as a rejection: the same request could be granted
// at another time.
func (l Lease) rejected() bool {
	switch o := l.outcome(); o {
	case unanswered:
		return true
	case failed:
		return errors.Is(l.Err(), ErrRejected)
	default:
		return o.rejected()
	}
}

// asError returns the lease and its error. Err of the returned lease returns that same error.
func (l Lease) asError() (Lease, error) {
	if x := l.extra(); x != nil && x.err != nil {
		return l, x.err
	}
	switch {
	case l.outcome() == exceeds:
		err := l.Err()
		return l.failing(err), err
	case !l.rejected():
		return l, l.Err()
	}
	// All in one allocation: a server that rejects many requests needs this to be cheap.
	r := new(struct {
		handle
		extra
		RejectedError
	})
	l.explain(&r.RejectedError)
	r.extra = l.copyExtra()
	r.extra.err = &r.RejectedError
	r.handle.s.Store(l.settings())
	r.handle.x = &r.extra
	l.h = &r.handle
	return l, &r.RejectedError
}

// failing returns the lease with an error of its own.
func (l Lease) failing(err error) Lease {
	x := l.copyExtra()
	x.err = err
	return l.with(l.settings(), x)
}

// explain sets the fields of the error of a rejection.
func (l Lease) explain(e *RejectedError) {
	f, o := l.info(), l.outcome()
	e.Permits, e.Reason, e.RetryAfter = f.permits, o.phrase(), time.Duration(f.retry)
	if f.limit > 0 && f.left >= 0 {
		e.Limit, e.Available = f.limit, f.left
	}
	if s := l.settings(); s != nil {
		e.Limiter = s.name
		switch {
		case o == tooSoon:
			e.Cause = context.DeadlineExceeded
		case o == queueFull && s.QueueLimit == 0:
			e.Detail = "QueueLimit is 0"
		case o == queueFull:
			e.Detail = "queue is full"
		}
	}
	if v, ok := l.added(LimiterName.name); ok {
		e.Limiter, _ = v.(string)
	}
	if v, ok := l.added(ReasonPhrase.name); ok {
		e.Reason, _ = v.(string)
		e.Detail = ""
	}
	if v, ok := l.added(RetryAfter.name); ok {
		e.RetryAfter, _ = v.(time.Duration)
	}
	if v, ok := l.added(PermitLimit.name); ok {
		e.Limit, _ = v.(int)
	}
	if v, ok := l.added(Remaining.name); ok {
		e.Available, _ = v.(int)
	}
}

// Metadata yields the metadata of the limiter's decision: each name once, and only names that
// have a value.
func (l Lease) Metadata() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, name := range builtinNames {
			if _, added := l.added(name); added {
				continue
			}
			if v, ok := l.builtin(name); ok && !yield(name, v) {
				return
			}
		}
		if x := l.extra(); x != nil {
			for _, m := range x.metadata() {
				if !yield(m.name, m.value) {
					return
				}
			}
		}
	}
}

// With returns a copy of the lease with metadata added. If a name is given twice, the later
// value wins. The copy is the same lease: releasing either releases both.
func (l Lease) With(metadata ...Metadata) Lease {
	x := l.copyExtra()
	x.meta = mergeMetadata(x.meta, metadata)
	return l.with(l.settings(), x)
}

// delayed returns the lease with a Delay.
func (l Lease) delayed(d int64) Lease {
	if d == 0 && l.outcome() == granted {
		l.bits ^= uint64(granted ^ reserved)
		return l
	}
	return l.With(Delay.With(time.Duration(d)))
}
