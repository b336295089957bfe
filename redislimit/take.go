package redislimit

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// Take takes permits of a limit if they are available now, in one call of the store. Nothing is kept in this process: each call states
// the key and the limit, no rejection is remembered, no permits are prefetched, and nothing has to be closed. All limiters with the same
// key share the limit.
//
// Take rejects, fails and settles like [Limiter.TryAcquire], with the default [Options]: it fails with an error that matches [ErrStore]
// if the store does not decide within 50 ms, immediately while the store is unavailable. If ctx is done, Take returns ctx.Err().
//
// A [Limiter] or a [Keyed] answers many requests without a call, and can wait; use them for keys that are busy.
func Take(ctx context.Context, s Store, key string, limit core.Options, permits int) (core.Lease, error) {
	l, err := New(limit, Options{Store: s, Key: key, Prefetch: 1})
	if err != nil {
		return core.Fail(err), err
	}
	return l.acquire(ctx, permits, demand{})
}
