package partition

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/acquire"
)

// TryAcquire takes permits from the limiter of r's partition if they are available now. It does
// not wait for permits, but it waits while another request makes the partition. If the
// partition cannot be made, the lease's Err wraps the error of Options.New.
func (k *Keyed[R, K]) TryAcquire(r R, permits int) core.Lease {
	if permits < 0 || !k.open.Load() {
		return core.Refuse(k.check(none, permits))
	}
	return k.tryAcquire(k.o.Key(r), permits)
}

// Acquire takes permits from the limiter of r's partition and may wait in its queue. The
// partition is not dropped during the wait. If ctx is done, Acquire returns ctx.Err(), also
// while it waits for another request that makes the partition; Options.New is not interrupted.
// If the partition cannot be made, the error wraps that of Options.New. Close ends the wait
// with [core.ErrClosed].
func (k *Keyed[R, K]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := k.check(ctx, permits); err != nil {
		return refuse(err)
	}
	return k.acquire(ctx, k.o.Key(r), permits)
}

func (k *Keyed[R, K]) check(ctx context.Context, permits int) error {
	if err := check(ctx, permits); err != nil {
		return err
	}
	if !k.open.Load() {
		return core.ErrClosed
	}
	return nil
}

func (k *Keyed[R, K]) tryAcquire(key K, permits int) core.Lease {
	k.sweepInTurn()
	e := k.find(key)
	if e == nil || !e.retires {
		return k.tryAcquireSlow(key, permits)
	}
	l := e.limiter.TryAcquire(permits)
	if l.Acquired() || !e.dropped() || !k.lost(e, l.Err()) {
		return l
	}
	return k.tryAcquireSlow(key, permits)
}

func (k *Keyed[R, K]) acquire(ctx context.Context, key K, permits int) (core.Lease, error) {
	k.sweepInTurn()
	e := k.find(key)
	if e == nil || !e.retires {
		return k.acquireSlow(ctx, key, permits)
	}
	l, err := e.limiter.Acquire(ctx, permits)
	if err == nil || !e.dropped() || !k.lost(e, err) {
		return l, err
	}
	return k.acquireSlow(ctx, key, permits)
}

// lost reports whether err comes from a limiter that was closed because its partition was
// dropped, so that nothing was asked. The mutex is taken to wait for the dropper's decision.
func (k *Keyed[R, K]) lost(e *entry[R, K], err error) bool {
	if err != core.ErrClosed { //nolint:errorlint // core's own limiters return it unchanged
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return e.dropped()
}

// tryAcquireSlow is tryAcquire with a pin, for a partition that has to be made, or that does
// not notice by itself when it is dropped.
func (k *Keyed[R, K]) tryAcquireSlow(key K, permits int) core.Lease {
	e, err := k.enter(none, key)
	if err != nil {
		return k.tryWithout(err, permits)
	}
	defer e.unpin()
	return e.limiter.TryAcquire(permits)
}

func (k *Keyed[R, K]) acquireSlow(ctx context.Context, key K, permits int) (core.Lease, error) {
	e, err := k.enter(ctx, key)
	if err != nil {
		return k.acquireWithout(ctx, err, permits)
	}
	defer e.unpin()
	if !e.retires && !closes(e.limiter) {
		return k.acquireUntilClose(ctx, e.limiter, permits)
	}
	l, err := e.limiter.Acquire(ctx, permits)
	return checked(e.limiter, l, err)
}

// acquireUntilClose acquires from a limiter that Close does not close; Close ends the wait.
func (k *Keyed[R, K]) acquireUntilClose(ctx context.Context, l core.Limiter, permits int) (core.Lease, error) {
	lease, err := acquire.Acquire(ctx, &k.closing, l, permits)
	if err != nil {
		return refusal(lease, err), err
	}
	return lease, nil
}

const reasonNoRoom = "partition limit reached"

// tryWithout answers a request that has no partition because of err.
func (k *Keyed[R, K]) tryWithout(err error, permits int) core.Lease {
	switch {
	case err != errNoRoom: //nolint:errorlint // it is this very value, or not
		return core.Refuse(err)
	case k.o.Overflow == nil:
		return k.reject(permits)
	}
	k.overflowed.Add(1)
	return k.o.Overflow.TryAcquire(permits)
}

func (k *Keyed[R, K]) acquireWithout(ctx context.Context, err error, permits int) (core.Lease, error) {
	switch {
	case err != errNoRoom: //nolint:errorlint // it is this very value, or not
		return refuse(err)
	case k.o.Overflow == nil:
		l := k.reject(permits)
		return l, l.Err()
	}
	k.overflowed.Add(1)
	return k.acquireUntilClose(ctx, k.o.Overflow, permits)
}

// reject rejects a request for want of room.
func (k *Keyed[R, K]) reject(permits int) core.Lease {
	k.overflowed.Add(1)
	l := core.Refuse(&core.RejectedError{Limiter: k.o.Name, Permits: permits, Reason: reasonNoRoom})
	if k.o.Name == "" {
		return l.With(core.ReasonPhrase.With(reasonNoRoom))
	}
	return l.With(core.LimiterName.With(k.o.Name), core.ReasonPhrase.With(reasonNoRoom))
}
