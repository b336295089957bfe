// Package closed has the error of what was closed, for the packages that have an ErrClosed
// of their own.
package closed

// Error returns an error that says "name: closed", and that matches parent too: core's
// error for the same.
func Error(name string, parent error) error { return closed{name, parent} }

type closed struct {
	name   string
	parent error
}

func (e closed) Error() string { return e.name + ": closed" }

func (e closed) Is(target error) bool { return target == e.parent }
