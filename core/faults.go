package core

import (
	"errors"
	"fmt"
	"time"
)

// faults collects the faults of an options value.
type faults struct {
	options string
	errs    []error
}

func (f *faults) add(field string, value any, want string) {
	f.errs = append(f.errs, fmt.Errorf("core: %s.%s = %v, want %s", f.options, field, value, want))
}

func (f *faults) atLeast(field string, value, least int) {
	if value < least {
		f.add(field, value, fmt.Sprintf("at least %d", least))
	}
}

func (f *faults) positive(field string, d time.Duration) {
	if d <= 0 {
		f.add(field, d, "above 0")
	}
}

func (f *faults) order(o QueueOrder) {
	if int(o) >= len(orderNames) {
		f.add("QueueOrder", o, orders)
	}
}

// err returns all faults at once, or nil if there are none.
func (f *faults) err() error { return errors.Join(f.errs...) }
