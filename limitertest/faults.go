package limitertest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// faults are the ways in which a limiter has broken the rules. They may be noted on any goroutine of the test.
type faults struct {
	mu   sync.Mutex
	errs []error
}

// errorf notes how a rule is broken.
func (f *faults) errorf(format string, args ...any) {
	f.mu.Lock()
	f.errs = append(f.errs, fmt.Errorf(format, args...))
	f.mu.Unlock()
}

// fatalf is errorf for an error after which the test cannot continue.
func (f *faults) fatalf(format string, args ...any) {
	f.errorf(format, args...)
	runtime.Goexit()
}

// all returns the errors so far.
func (f *faults) all() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.errs)
}

// panicked turns a panic of the limiter into an error; cause is what recover returned.
func (f *faults) panicked(cause any) {
	if cause != nil {
		f.errorf("panic: %v\n%s", cause, debug.Stack())
	}
}

// atOnce expects a call that started at a given time to have taken no time.
func (f *faults) atOnce(start time.Time, format string, args ...any) {
	if took := time.Since(start); took > 0 {
		f.errorf("%s took %v, want it to return immediately", fmt.Sprintf(format, args...), took)
	}
}
