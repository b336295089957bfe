// Package callback keeps calls of a user's callback from being inside each other. A callback may call the
// library again, and that call may have reason for another callback. If each ran inside the one before, their
// depth would be as large as the number of things to report, and the stack could overflow.
package callback

import (
	"reflect"
	"runtime"
)

// Call calls f, which calls the user's code. Its frame is the mark by which Inside knows.
//
//go:noinline
func Call(f func()) { f() }

var entry = reflect.ValueOf(Call).Pointer()

// Inside reports whether the goroutine is in a [Call]. Callbacks have no context that could carry a mark, so
// Inside looks at the stack, which takes a microsecond or more: ask it only while a Call runs. It does not see
// a call on another goroutine for which a callback waits.
func Inside() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == entry {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
