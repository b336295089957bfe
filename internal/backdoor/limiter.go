package backdoor

import (
	"fmt"
	"reflect"
)

// What one does with any limiter, whether it is one of package core or a user's. L is core.Lease.

// Checked returns the answer of a limiter's Acquire in valid form: an acquired lease and nil, or a lease that
// is not acquired and its error. An acquired lease that comes with an error is refunded. If both are rejections,
// the lease keeps its metadata. Call it where a limiter may be a user's.
func Checked[L any](lease L, err error) (L, error) {
	return installed.(interface {
		checked(lease L, err error) (L, error)
	}).checked(lease, err)
}

func (w *Ways[Limiter, L]) checked(lease L, err error) (L, error) { return w.Checked(lease, err) }

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
