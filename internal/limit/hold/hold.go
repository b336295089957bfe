// Package hold asks a limiter for permits, and keeps the grant until it is returned: as plain
// permits if the limiter has them, else as a lease.
//
// A lease may be copied and released any number of times. A package that gives each grant back exactly once
// does not need that. Plain permits are permits of a *core.ConcurrencyLimiter without a lease: taking or
// giving them back is one lock and unlock, calls no user code, and may be done under a mutex.
//
//	l := hold.Of(limiter)              // once
//	h, err := l.Take(ctx, &source, n)  // per item, task or part; waits
//	...
//	l.Refund(h)                        // or lease := l.Lease(h), or the caller returns what h holds
package hold

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/wait"
)

// Hold is a grant: plain permits or a lease. The zero Hold is no grant. Return it exactly once.
type Hold struct {
	Permits int        // plain permits; 0: none
	Lease   core.Lease // acquired only if Permits is 0
}

// Limiter is a limiter that is asked for holds. Its methods may be called with any number of permits unless
// they say otherwise. Create it with [Of]. It is safe for concurrent use.
type Limiter struct {
	core.Limiter // nil only in the zero Limiter, whose methods must not be called

	plain   backdoor.Permits[core.Lease]              // nil means that the limiter has no plain permits
	ordered interface{ QueueOrder() core.QueueOrder } // the limiter, if it has that method: it saves a type assertion
}

// ways has the way to a concurrency limiter's plain permits.
var ways = backdoor.Core[core.Limiter, core.Lease]()

// Of returns l for asking; l is not nil.
func Of(l core.Limiter) Limiter {
	h := Limiter{Limiter: l}
	h.ordered, _ = l.(interface{ QueueOrder() core.QueueOrder })
	if plain, ok := ways.Permits(l); ok {
		h.plain = plain
	}
	return h
}

// Plain reports whether n permits are held as plain permits. Requests for 0 permits, which hold nothing,
// and for negative numbers, which fail, are made with a lease.
func (l *Limiter) Plain(n int) bool { return l.plain != nil && n > 0 }

// TryPlain takes n plain permits if Plain(n) and they are available. A failure leaves no trace. It calls no
// user code.
func (l *Limiter) TryPlain(n int) bool { return l.Plain(n) && l.plain.TryTake(n) }

// GivePlain returns n plain permits. It calls no user code.
func (l *Limiter) GivePlain(n int) { l.plain.Give(n) }

// PassPlain is GivePlain of n permits and TryPlain of as many, at once. If it returns false, the caller has the permits
// still.
func (l *Limiter) PassPlain(n int) bool { return l.plain.Pass(n) }

// Exceeds returns the error of a request for n permits that can never be granted, because n is more than the
// limit; nil otherwise. It calls the limiter, which may be a user's.
func (l *Limiter) Exceeds(n int) error {
	if n <= 1 || n <= Limit(l.Limiter) { // a limit is at least 1
		return nil
	}
	h, err := l.Try(n)
	if err == nil { // the limit was raised just now
		l.Refund(h)
	}
	if errors.Is(err, core.ErrRejected) {
		return nil
	}
	return err
}

// Try takes n permits if they are available. The limiter counts a rejection, and the error gives its
// reason.
func (l *Limiter) Try(n int) (Hold, error) {
	if !l.Plain(n) {
		lease := l.Limiter.TryAcquire(n)
		return Hold{Lease: lease}, lease.Err()
	}
	if err := l.plain.Try(n); err != nil {
		return Hold{}, err
	}
	return Hold{Permits: n}, nil
}

// Take takes n permits, and waits for them whatever QueueLimit is: see [backdoor.Beyond]. The wait
// ends with ctx and with s, as in [Acquire]. It does not try for plain permits first: the caller has called
// [Limiter.TryPlain].
func (l *Limiter) Take(ctx context.Context, s *wait.Source, n int) (Hold, error) {
	if !l.Plain(n) {
		lease, err := Acquire(ctx, s, l.Limiter, n, true)
		return Hold{Lease: lease}, err
	}
	if err := s.Ended(ctx); err != nil {
		return Hold{}, err
	}
	if err := l.plain.Take(ctx, s, n); err != nil {
		return Hold{}, err
	}
	return Hold{Permits: n}, nil
}

// Refund returns a grant that was not used; a rate limiter gets its permits back too.
func (l *Limiter) Refund(h Hold) {
	if h.Permits > 0 {
		l.plain.Give(h.Permits)
	} else {
		h.Lease.Refund()
	}
}

// Lease returns a lease that has what h holds. The lease gives it back, and the caller must not.
func (l *Limiter) Lease(h Hold) core.Lease {
	if h.Permits > 0 {
		return l.plain.Lease(h.Permits)
	}
	return h.Lease
}
