package partition

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// TryAcquire takes permits from the limiter of r's partition if they are available now. It does
// not wait for permits, but it waits while another request creates the partition. For calls of Options.OnEvict it waits
// for a moment, as described there. If the
// partition cannot be created, the lease's Err wraps the error of Options.New.
func (k *Keyed[R, K]) TryAcquire(r R, permits int) core.Lease {
	return k.checkTry(r, permits, way{try: core.Limiter.TryAcquire})
}

// Reserve reserves permits of the limiter of r's partition, as [core.Reserver] describes. If that limiter is not a
// core.Reserver, the lease is not acquired, and its error says so. A reservation stays with the limiter that granted
// it, even if Refresh replaces that limiter.
func (k *Keyed[R, K]) Reserve(r R, permits int) core.Lease {
	return k.checkTry(r, permits, way{try: reserve})
}

func (k *Keyed[R, K]) checkTry(r R, permits int, w way) core.Lease {
	if err := k.check(background, permits); err != nil {
		return core.Fail(err)
	}
	l, _ := k.decide(background, k.o.Key(r), permits, w)
	return l
}

// Acquire takes permits from the limiter of r's partition and may wait in its queue. The partition is not dropped
// during the wait. If ctx is done, Acquire returns ctx.Err(), even while it waits for another request to create the
// partition. The end of ctx does not interrupt Options.New. If the partition cannot be created, the error wraps that
// of Options.New. If [Keyed.Refresh] replaces the limiter, the request waits in the new one. Close ends the wait with
// [core.ErrClosed].
func (k *Keyed[R, K]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := k.check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	return k.decide(ctx, k.o.Key(r), permits, way{})
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

// entry returns the entry that decides the key's requests, which is created if it is not live. full reports that there is no
// room for the key. The error is errNoRoom if it has no group either.
func (k *Keyed[R, K]) entry(ctx context.Context, key K, w way) (e *entry[R, K], full bool, err error) {
	k.sweepSometimes()
	if e := k.partitions.find(key); e != nil {
		return e, false, nil
	}
	return k.enter(ctx, key, w)
}

// way is how a request asks a limiter: by try, or, if that is nil, by an Acquire, which waits whatever QueueLimit is if waits
// is set.
type way struct {
	try   func(l core.Limiter, permits int) core.Lease
	waits bool
}

// reserve is Reserve, if the limiter is a [core.Reserver].
func reserve(l core.Limiter, permits int) core.Lease { return ways.Reserve(l, permits) }

// waiting is Acquire of a request that waits beyond QueueLimit.
func waiting(ctx context.Context, l core.Limiter, permits int) (core.Lease, error) {
	lease, _, err := ways.Acquire(ctx, l, permits, nil, backdoor.Beyond)
	return lease, err
}

// quietly is [core.TryQuietly].
func quietly(l core.Limiter, permits int) core.Lease {
	lease, _ := core.TryQuietly(l, permits)
	return lease
}

// decide has the limiter decide that the key has, and again if that was dropped or replaced meanwhile.
func (k *Keyed[R, K]) decide(ctx context.Context, key K, permits int, w way) (core.Lease, error) {
	overflowed := false
	for {
		e, full, err := k.entry(ctx, key, w)
		if full && !overflowed {
			overflowed = true
			k.overflowed.Add(1)
		}
		if err != nil {
			l := k.failed(err, permits)
			return l, l.Err()
		}
		l, waited, err := e.ask(ctx, permits, w)
		if !k.lost(e, l) {
			return l, err
		}
		if err := ctx.Err(); err != nil {
			return core.Fail(err), err
		}
		w.waits = w.waits || waited // it keeps its right to wait
	}
}

// tryQuietly is decide for a try that leaves no trace if it fails. A failure may also mean that the partition
// was dropped meanwhile.
func (k *Keyed[R, K]) tryQuietly(key K, permits int) (core.Lease, bool) {
	w := way{try: quietly}
	e, full, err := k.entry(background, key, w)
	if err != nil {
		return core.Lease{}, false
	}
	l, _, _ := e.ask(background, permits, w)
	if k.lost(e, l) || !l.Acquired() {
		return core.Lease{}, false
	}
	if full {
		k.overflowed.Add(1)
	}
	return l, true
}

// ErrFull is matched by the error of a request that was rejected because there was no room for its key. The error also
// matches [core.ErrRejected].
var ErrFull = errors.New("partition: partition limit reached")

// full is the error of such a rejection.
type full struct{ *core.RejectedError }

func (f full) Unwrap() []error { return []error{f.RejectedError, ErrFull} }

const reasonNoRoom = "partition limit reached"

// failed returns the answer to a request that no limiter decides.
func (k *Keyed[R, K]) failed(err error, permits int) core.Lease {
	if err != errNoRoom { //nolint:errorlint // this very value
		return core.Fail(err)
	}
	l := core.Fail(full{&core.RejectedError{Limiter: k.o.Name, Permits: permits, Reason: reasonNoRoom}})
	l = l.With(core.ReasonPhrase.With(reasonNoRoom))
	if k.o.Name != "" {
		l = l.With(core.LimiterName.With(k.o.Name))
	}
	return l
}
