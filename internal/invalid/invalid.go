// Package invalid collects the errors in a caller's options, so that a constructor reports all of them at once.
package invalid

import (
	"errors"
	"fmt"
)

// Fields are the invalid fields of an options value.
type Fields struct {
	// Prefix is what each error starts with: the package, and the type where the fields' names do not contain it, such
	// as "core: TokenBucketOptions.".
	Prefix string

	errs []error
}

// Add adds a field whose value is not one of those that are wanted.
func (f *Fields) Add(field string, value any, want string) {
	f.Addf("%s = %v, want %s", field, value, want)
}

// Addf adds an error. The format starts with the name of a field.
func (f *Fields) Addf(format string, args ...any) {
	f.Join(fmt.Errorf(f.Prefix+format, args...))
}

// Join adds an error of another constructor, which has a prefix of its own. It does nothing if err is nil.
func (f *Fields) Join(err error) {
	if err != nil {
		f.errs = append(f.errs, err)
	}
}

// Err returns all errors joined, or nil if there are none.
func (f *Fields) Err() error { return errors.Join(f.errs...) }
