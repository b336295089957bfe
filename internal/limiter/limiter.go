// Package limiter does with any limiter, core's or a user's, what each package that asks
// one has to do. It names no type of core, so core may use it.
package limiter

import (
	"errors"
	"reflect"
)

// Lease is what of a core.Lease is needed here.
type Lease interface {
	Acquired() bool
	Err() error
	Release()
}

// Refund undoes a grant that was not used. A limiter that is no core.Refunder has its
// lease released, which is all that it offers.
func Refund[L Lease](limiter any, lease L) {
	if r, ok := limiter.(interface{ Refund(lease L) }); ok {
		r.Refund(lease)
		return
	}
	lease.Release()
}

// Checked returns the answer of somebody's Acquire as it should have been: either an
// acquired lease or an error. A lease beside an error is refunded.
func Checked[L Lease](limiter any, lease L, err error) (L, error) {
	if err == nil {
		return lease, lease.Err() // nil if it is acquired
	}
	if lease.Acquired() {
		Refund(limiter, lease)
		var none L
		return none, err
	}
	return lease, err
}

// Is is errors.Is for a target that is somebody's own error: one that cannot be compared, as a
// struct with a list in it, is no other's, where errors.Is panics.
func Is(err, target error) bool {
	return reflect.ValueOf(target).Comparable() && errors.Is(err, target)
}
