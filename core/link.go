package core

import (
	"errors"
	"reflect"

	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/limiter"
)

// link is a limiter that another stands on, with what it can do beyond the interface if
// it is of this package.
type link struct {
	Limiter
	own own // nil: somebody else's
}

// own is what the limiters of this package offer each other.
type own interface {
	tryQuietly(permits int) (Lease, bool) // takes the permits if nobody has to wait, else leaves no trace
	certain()                             // the latest tryQuietly counts as a grant: it will not be forgotten
	undo(l Lease)                         // undoes a grant that nobody has seen
	forget(l Lease)                       // the same, of a grant by tryQuietly
	fits(permits int) bool                // they are not more than the limit
	runsForeign() bool                    // somebody else's code runs in its calls, which may panic
	refundable() bool                     // a refund gives back more than a release
}

// ownOf returns the limiter as one of this package's; nil if it is not. Its type decides,
// and not what methods it has: whoever embeds a limiter of this package has them all, and
// may have overridden some.
func ownOf(l Limiter) own {
	switch l := l.(type) {
	case *ConcurrencyLimiter:
		return l
	case *TokenBucket:
		return l
	case *FixedWindow:
		return l
	case *SlidingWindow:
		return l
	case *ChainedLimiter:
		return l
	case *unlimited:
		return l
	case *reasoned:
		return l
	case *reasonedReplenisher:
		return l
	}
	return nil
}

func newLink(l Limiter) link { return link{l, ownOf(l)} }

func (k *link) tryQuietly(permits int) (Lease, bool) {
	if k.own == nil {
		return Lease{}, false
	}
	return k.own.tryQuietly(permits)
}

func (k *link) certain() {
	if k.own != nil {
		k.own.certain()
	}
}

func (k *link) undo(l Lease) {
	if k.own == nil {
		k.refund(l)
		return
	}
	k.own.undo(l)
}

func (k *link) forget(l Lease) {
	if k.own == nil {
		k.refund(l)
		return
	}
	k.own.forget(l)
}

// refund undoes a grant, or releases it if the limiter knows no refund.
func (k *link) refund(l Lease) { limiter.Refund(k.Limiter, l) }

// release releases a grant.
func (k *link) release(l Lease) { l.Release() }

func (k *link) fits(permits int) bool { return k.own == nil || k.own.fits(permits) }

func (k *link) runsForeign() bool { return k.own == nil || k.own.runsForeign() }

func (k *link) refundable() bool {
	if k.own == nil {
		_, ok := k.Limiter.(Refunder)
		return ok
	}
	return k.own.refundable()
}

// TryQuietly is TryAcquire, but a refusal leaves no trace: it is not counted as rejected,
// and nobody learns why. It is for a caller that tries a few times before it waits. Of a limiter
// that is not of this package, or that embeds one of it, it takes nothing and returns false.
func TryQuietly(l Limiter, permits int) (Lease, bool) {
	o := ownOf(l)
	if o == nil {
		return Lease{}, false
	}
	lease, ok := o.tryQuietly(permits)
	if ok {
		o.certain()
	}
	return lease, ok
}

// answered returns the answer of somebody else's Acquire as it should have been: an
// acquired lease, or the error and a lease that has it.
func answered(l Limiter, lease Lease, err error) (Lease, error) {
	lease, err = limiter.Checked(l, lease, err)
	switch {
	case err == nil || same(lease.Err(), err):
		return lease, err
	case lease.rejected() && errors.Is(err, ErrRejected):
		return lease.failing(err), err // the metadata is the rejection's
	}
	return Refuse(err), err
}

// same reports whether a and b are one error. Errors that cannot be compared, such as lists,
// never are.
func same(a, b error) bool {
	if reflect.TypeOf(b).Kind() != reflect.Pointer && (!reflect.ValueOf(a).Comparable() || !reflect.ValueOf(b).Comparable()) {
		return false
	}
	return a == b //nolint:errorlint // that very error
}

// isNil reports whether l is nil, or holds a nil pointer.
func isNil(l Limiter) bool { return argument.IsNil(l) }

// roots returns the limiters that l stands on, through chains and views; of any other, l.
func roots(l Limiter) []Limiter {
	switch l := l.(type) {
	case *ChainedLimiter:
		all := make([]Limiter, 0, len(l.links))
		for i := range l.links {
			all = append(all, roots(l.links[i].Limiter)...)
		}
		return all
	case *reasoned:
		return roots(l.Limiter)
	case *reasonedReplenisher:
		return roots(l.link.Limiter)
	}
	return []Limiter{l}
}

// identical reports whether a and b are one limiter. Only pointers tell; and not those to
// types of no size, which may all be the same.
func identical(a, b Limiter) bool {
	t := reflect.TypeOf(a)
	return t == reflect.TypeOf(b) && t.Kind() == reflect.Pointer && t.Elem().Size() > 0 && a == b
}
