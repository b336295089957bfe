// Package argument checks what callers pass. It imports std only, so core may use it.
package argument

import "reflect"

// IsNil reports whether v is nil, or an interface around a nil pointer, map, function,
// channel or slice: what a method would fail on at its first use, far from the mistake.
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
