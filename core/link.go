package core

import (
	"errors"
	"reflect"
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
	undo(l Lease)                         // undoes a grant that nobody has seen
	forget(l Lease)                       // the same, and it is not counted as granted
	fits(permits int) bool                // they are not more than the limit
}

func newLink(l Limiter) link {
	o, _ := l.(own)
	return link{l, o}
}

func (k *link) tryQuietly(permits int) (Lease, bool) {
	if k.own == nil {
		return Lease{}, false
	}
	return k.own.tryQuietly(permits)
}

func (k *link) undo(l Lease) {
	if k.own == nil {
		refund(k.Limiter, l)
		return
	}
	k.own.undo(l)
}

func (k *link) forget(l Lease) {
	if k.own == nil {
		refund(k.Limiter, l)
		return
	}
	k.own.forget(l)
}

func (k *link) fits(permits int) bool { return k.own == nil || k.own.fits(permits) }

// TryQuietly is TryAcquire, but a refusal leaves no trace: it is not counted as rejected,
// and nobody learns why. It is for those who try a few times before they wait. Of a limiter
// that is not of this package it takes nothing and returns false.
func TryQuietly(l Limiter, permits int) (Lease, bool) {
	if o, ok := l.(own); ok {
		return o.tryQuietly(permits)
	}
	return Lease{}, false
}

// refund undoes a grant, or releases it if the limiter knows no refund.
func refund(limiter Limiter, l Lease) {
	if r, ok := limiter.(Refunder); ok {
		r.Refund(l)
		return
	}
	l.Release()
}

// answered returns what somebody else's Acquire returned, with the lease of the error if
// its author was careless.
func answered(l Lease, err error) (Lease, error) {
	if err != nil && !errors.Is(l.Err(), err) {
		l = Refuse(err)
	}
	return l, err
}

// isNil reports whether l is nil, or holds a nil pointer.
func isNil(l Limiter) bool {
	v := reflect.ValueOf(l)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
