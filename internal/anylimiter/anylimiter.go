// Package anylimiter has what every package that asks a limiter does with it, whether the limiter is one of
// package core or a user's. It names no type of core, so that core may use it: L is core.Lease. What
// needs core's types is in package hold.
package anylimiter

import (
	"fmt"
	"reflect"
)

// Lease has the methods of a core.Lease that are needed here.
type Lease interface {
	Acquired() bool
	Err() error
	Release()
}

// Checked returns the answer of a foreign limiter's Acquire in valid form: an acquired lease and nil, or a
// lease that is not acquired and its error. A lease beside an error is refunded. failing returns the lease
// of a failed request with err as its error; it is called if the lease's own error is another.
func Checked[L Lease](limiter any, lease L, err error, failing func(lease L, err error) L) (L, error) {
	switch {
	case err == nil && lease.Acquired():
		return lease, nil
	case err == nil:
		err = lease.Err()
	case lease.Acquired():
		Refund(limiter, lease)
		var none L
		return failing(none, err), err
	}
	if !Same(lease.Err(), err) {
		lease = failing(lease, err)
	}
	return lease, err
}

// Refund undoes a grant that was not used: by the limiter's Refund if it is a core.Refunder, else by
// releasing the lease.
func Refund[L Lease](limiter any, lease L) {
	if r, ok := limiter.(interface{ Refund(lease L) }); ok {
		r.Refund(lease)
		return
	}
	lease.Release()
}

// Settle corrects the cost of a grant, and returns the lease that replaces lease. If the limiter is not a
// core.Settler, the lease stays as it is, unless permits is 0 or less: then it is refunded. So is that of a
// limiter that embeds one of core's, because its Settle bypasses a Refund of its own.
func Settle[L Lease](limiter any, lease L, permits int) L {
	if s, ok := limiter.(interface{ Settle(lease L, permits int) L }); ok && (permits > 0 || !embeds(limiter)) {
		return s.Settle(lease, permits)
	}
	if permits <= 0 && lease.Acquired() {
		Refund(limiter, lease)
	}
	return lease
}

// embeds is what core installed.
var embeds = func(any) bool { return false }

// Embeds reports whether the limiter is of a type that embeds one of core's.
func Embeds(limiter any) bool { return embeds(limiter) }

// Install is called by core while it is initialised.
func Install(embedsOneOfCores func(limiter any) bool) struct{} {
	embeds = embedsOneOfCores
	return struct{}{}
}

// IsNil reports whether v is nil, or an interface around a nil pointer, map, function, channel or slice:
// a value whose methods would fail at their first use, far from the mistake.
func IsNil(v any) bool {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Map, reflect.Func, reflect.Chan, reflect.Slice, reflect.UnsafePointer:
		return r.IsNil()
	default:
		return false
	}
}

// Same reports whether a and b are one limiter, or one error. Values that cannot be compared, such as
// lists, are never the same, and neither are pointers to types of size zero, which may all be equal.
// Nothing is the same as nil.
func Same(a, b any) bool {
	if a == nil || b == nil {
		return false
	}
	t := reflect.TypeOf(a)
	if t != reflect.TypeOf(b) || t.Kind() == reflect.Pointer && t.Elem().Size() == 0 {
		return false
	}
	return t.Kind() == reflect.Pointer && a == b ||
		reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// Describe returns the limiter's own String, or its type: printing the fields of a limiter in use would be
// a data race.
func Describe(limiter any) string {
	if s, ok := limiter.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", limiter)
}

// Closed returns the error ErrClosed of a package: its message is "name: closed", and it matches parent,
// core's error for the same.
func Closed(name string, parent error) error { return closed{name, parent} }

type closed struct {
	name   string
	parent error
}

func (e closed) Error() string { return e.name + ": closed" }

func (e closed) Is(target error) bool { return target == e.parent }
