// Package acquire asks a limiter for permits as a channel, a pipe, a stream and a pool do:
// quietly first, and with a context of its own only if the call may have to wait.
package acquire

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/internal/linked"
)

// Acquire is l.Acquire, whose wait ends with s too: then the error is the source's cause. If
// ctx or s has ended by the time that permits are granted, they are refunded. The lease is
// acquired exactly if the error is nil, whatever the limiter returned.
func Acquire(ctx context.Context, s *linked.Source, l core.Limiter, n int) (core.Lease, error) {
	if err := ctx.Err(); err != nil {
		return core.Refuse(err), err
	}
	if cause := s.Cause(); cause != nil {
		return core.Refuse(cause), cause
	}
	if lease, ok := core.TryQuietly(l, n); ok {
		return lease, nil
	}
	return Wait(ctx, s, l, n)
}

// Wait is Acquire for a caller that has tried: it does not try quietly first.
func Wait(ctx context.Context, s *linked.Source, l core.Limiter, n int) (core.Lease, error) {
	call := s.Begin(ctx)
	defer call.End()
	lease, err := l.Acquire(call, n) //nolint:contextcheck // it is ctx, until the source ends
	lease, err = limiter.Checked(l, lease, err)
	if err != nil {
		if cause := call.Explain(err); cause != err { //nolint:errorlint // that very error
			return core.Refuse(cause), cause
		}
		return lease, err
	}
	if err := call.Ended(); err != nil { // the limiter did not notice
		limiter.Refund(l, lease)
		return core.Refuse(err), err
	}
	return lease, nil
}
