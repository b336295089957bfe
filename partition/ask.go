package partition

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// TryAcquire takes permits from the limiter of r's partition if they are available now. It does
// not wait for permits, but it waits while another request creates the partition. If the
// partition cannot be created, the lease's Err wraps the error of Options.New.
func (k *Keyed[R, K]) TryAcquire(r R, permits int) core.Lease {
	if err := k.check(background, permits); err != nil {
		return core.Fail(err)
	}
	return k.tryAcquire(k.o.Key(r), nil, permits, core.Limiter.TryAcquire)
}

// Acquire takes permits from the limiter of r's partition and may wait in its queue. The
// partition is not dropped during the wait. If ctx is done, Acquire returns ctx.Err(), also
// while it waits for another request that creates the partition; Options.New is not interrupted.
// If the partition cannot be created, the error wraps that of Options.New. Close ends the wait
// with [core.ErrClosed].
func (k *Keyed[R, K]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := k.check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	return k.acquire(ctx, k.o.Key(r), nil, permits, hold.Acquire)
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

// entry returns the key's entry, which is created if it is not live, or the overflow entry if there is
// no room for it. known is an entry of the key, which may have been dropped, or nil.
func (k *Keyed[R, K]) entry(ctx context.Context, key K, known *entry[R, K]) (*entry[R, K], error) {
	k.sweepSometimes()
	if known == nil || known.dropped() {
		known = k.find(key)
	}
	if known != nil {
		return known, nil
	}
	return k.enter(ctx, key)
}

// tryFunc is core.Limiter.TryAcquire, reserve or quietly.
type tryFunc = func(l core.Limiter, permits int) core.Lease

// reserve is Reserve, if the limiter is a [core.Reserver].
func reserve(l core.Limiter, permits int) core.Lease { return ways.Reserve(l, permits) }

// quietly is [core.TryQuietly].
func quietly(l core.Limiter, permits int) core.Lease {
	lease, _ := core.TryQuietly(l, permits)
	return lease
}

func (k *Keyed[R, K]) tryAcquire(key K, known *entry[R, K], permits int, try tryFunc) core.Lease {
	for {
		e, err := k.entry(background, key, known)
		if err != nil {
			return core.Fail(err)
		}
		k.count(e)
		if l := e.try(permits, try); !e.lost(l) {
			return l
		}
		known = nil
	}
}

// tryQuietly is tryAcquire, but a failure leaves no trace. It may also mean that the partition
// was dropped meanwhile.
func (k *Keyed[R, K]) tryQuietly(key K, known *entry[R, K], permits int) (core.Lease, bool) {
	e, err := k.entry(background, key, known)
	if err != nil {
		return core.Lease{}, false
	}
	l := e.try(permits, quietly)
	if l.Acquired() {
		k.count(e)
	}
	return l, l.Acquired()
}

// acquireFunc is hold.Acquire or hold.AcquireWaiting.
type acquireFunc = func(ctx context.Context, s *wait.Source, l core.Limiter, permits int) (core.Lease, error)

func (k *Keyed[R, K]) acquire(ctx context.Context, key K, known *entry[R, K], permits int, acquire acquireFunc) (core.Lease, error) {
	for {
		e, err := k.entry(ctx, key, known)
		if err != nil {
			return core.Fail(err), err
		}
		k.count(e)
		if l, err := e.acquire(ctx, permits, acquire); !e.lost(l) {
			return l, err
		}
		known = nil
	}
}

// count counts a request if Overflow decides it.
func (k *Keyed[R, K]) count(e *entry[R, K]) {
	if e == k.overflow {
		k.overflowed.Add(1)
	}
}

// ErrFull is matched by a rejection because there was no room for another key. The rejection also matches
// [core.ErrRejected].
var ErrFull = errors.New("partition: partition limit reached")

// full is the error of such a rejection.
type full struct{ *core.RejectedError }

func (f full) Unwrap() []error { return []error{f.RejectedError, ErrFull} }

const reasonNoRoom = "partition limit reached"

// noRoom rejects a request because there is no room for its key.
func (k *Keyed[R, K]) noRoom(permits int) core.Lease {
	l := core.Fail(full{&core.RejectedError{Limiter: k.o.Name, Permits: permits, Reason: reasonNoRoom}})
	if k.o.Name == "" {
		return l.With(core.ReasonPhrase.With(reasonNoRoom))
	}
	return l.With(core.LimiterName.With(k.o.Name), core.ReasonPhrase.With(reasonNoRoom))
}
