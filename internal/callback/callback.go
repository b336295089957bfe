// Package callback tells when a call comes from a user's callback. A callback may call the library again, and that
// call may have reason for another callback. If each ran inside the one before, their depth would be as large as
// the number of things to report, and the stack could overflow.
//
//	//go:noinline
//	func callUser(f func()) { f() } // calls each callback
//
//	var userCall = callback.MarkOf(callUser)
package callback

import (
	"reflect"
	"runtime"
)

// Mark is a function whose frame on the stack marks that a callback runs.
type Mark uintptr

// MarkOf returns the mark that the frame of f is; f must not be inlined.
func MarkOf(f func(func())) Mark { return Mark(reflect.ValueOf(f).Pointer()) }

// Inside reports whether the mark's function is among the callers. Callbacks have no context that could carry a
// mark, so Inside looks at the stack, which takes a microsecond or more: ask it only while a callback runs. It
// does not see a call on another goroutine for which a callback waits.
func (m Mark) Inside() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == uintptr(m) {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
