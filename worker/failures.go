package worker

import (
	"errors"
	"fmt"
)

// keptFailures bounds the errors that a pool keeps for the next Wait, so that one which
// fails for months without a Wait does not grow.
const keptFailures = 100

// failures are the errors of tasks that no Wait has returned yet.
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

// take returns the errors joined, nil if there is none, and forgets them.
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
