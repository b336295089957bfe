package worker

import (
	"errors"
	"fmt"
)

// keptFailures is the maximum number of errors that a pool keeps for the next Wait. It bounds
// the memory of a pool on which Wait is never called.
const keptFailures = 100

// failures are the tasks' errors that no Wait has returned yet.
type failures struct {
	first []error
	more  uint64
}

func (f *failures) add(err error) {
	if len(f.first) < keptFailures {
		f.first = append(f.first, err)
		return
	}
	f.more++
}

// take removes the errors and returns them joined; nil if there are none.
func (f *failures) take() error {
	if f.first == nil {
		return nil
	}
	errs := f.first
	if f.more > 0 {
		errs = append(errs, fmt.Errorf("worker: %d more tasks failed", f.more))
	}
	*f = failures{}
	return errors.Join(errs...)
}
