package adaptive

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
)

func describe(kind, name string, s core.Statistics) string {
	if name != "" {
		kind += fmt.Sprintf(" %q", name)
	}
	return kind + ": " + s.String()
}

// faults collects what is wrong with options.
type faults struct {
	options string
	errs    []error
}

func (f *faults) must(right bool, field string, value any, want string) {
	if !right {
		f.errs = append(f.errs, fmt.Errorf("adaptive: %s.%s = %v, want %s", f.options, field, value, want))
	}
}

func (f *faults) err() error { return errors.Join(f.errs...) }
