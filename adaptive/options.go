package adaptive

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

// Options are the terms of a [Concurrency]. The zero value is usable: a limit from 1 to
// 1,000 that starts at 20, nobody waits, and [Gradient] learns.
type Options struct {
	Name       string          // for metadata and errors; "": none
	Min        int             // the limit does not go below. 0: 1
	Max        int             // the limit does not go above. 0: 1000
	Initial    int             // where the limit starts, from Min to Max. 0: 20, moved into Min..Max
	QueueLimit int             // permits that may wait; 0: nobody waits
	QueueOrder core.QueueOrder // who is served first

	// Algorithm moves the limit. nil: Gradient{}. One that has a method New() Algorithm is
	// asked for an algorithm of the limiter's own, so that the same Options make any number
	// of limiters.
	Algorithm Algorithm

	// OnChange is told of each change of the limit, after it is in force, in order, one call
	// at a time. It runs on a goroutine that releases, with no lock held; samples wait for
	// it. May be nil.
	OnChange func(old, new int) //nolint:revive,predeclared // as the two are called
}

const (
	defaultMin     = 1
	defaultMax     = 1000
	defaultInitial = 20
)

// complete sets what was left out, and makes the limiter's own algorithm; it returns what
// is wrong, all at once.
func (o *Options) complete() error {
	f := faults{options: "Options"}
	f.must(o.Min >= 0, "Min", o.Min, "at least 0")
	f.must(o.Max >= 0, "Max", o.Max, "at least 0")
	if o.Min == 0 {
		o.Min = defaultMin
	}
	if o.Max == 0 {
		o.Max = defaultMax
	}
	f.must(o.Max < 0 || o.Min <= o.Max, "Min", o.Min, fmt.Sprintf("at most Max, which is %d", o.Max))
	switch {
	case o.Initial != 0:
		right := o.Min <= o.Initial && o.Initial <= o.Max
		f.must(right, "Initial", o.Initial, fmt.Sprintf("from Min to Max, %d to %d", o.Min, o.Max))
	default:
		o.Initial = min(max(defaultInitial, o.Min), o.Max)
	}
	f.must(o.QueueLimit >= 0, "QueueLimit", o.QueueLimit, "at least 0")
	f.must(o.QueueOrder <= core.NewestFirst, "QueueOrder", o.QueueOrder, "oldest-first or newest-first")
	f.algorithm(&o.Algorithm)
	return f.err()
}

// algorithm puts the limiter's own algorithm in the place of a, which may be a
// configuration.
func (f *faults) algorithm(a *Algorithm) {
	switch {
	case *a == nil:
		*a = Gradient{}
	case argument.IsNil(*a):
		f.must(false, "Algorithm", fmt.Sprintf("(%T)(nil)", *a), "an algorithm")
		return
	}
	if v, ok := (*a).(interface{ validate() error }); ok {
		if err := v.validate(); err != nil {
			f.errs = append(f.errs, err)
			return
		}
	}
	if own, ok := (*a).(interface{ New() Algorithm }); ok {
		made := own.New()
		f.must(!argument.IsNil(made), "Algorithm", fmt.Sprintf("%T, whose New returns nil", *a), "an algorithm")
		*a = made
	}
}

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
